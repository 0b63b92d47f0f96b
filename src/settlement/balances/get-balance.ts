import { getBusiness } from '../../businesses/get-business.ts'
import { Fault } from '../../core/errors.ts'
import type { Database } from '../../postgres/orm.ts'
import type { Balance, BalanceKey } from '../settlement.ts'
import { readBalance } from './store.ts'

/**
 * The current balance of a business, including every committed payment.
 *
 * @throws Fault not_found (the business), unavailable (after a restore, until its events are numbered)
 */
export async function getBalance(database: Database, key: BalanceKey): Promise<Balance> {
  await getBusiness(database, key.businessId)
  const { isCurrent, ...balance } = await database.read((on) => readBalance(on, key))
  if (!isCurrent) {
    throw new Fault('unavailable', 'The database was restored and its event log is not ready yet', {
      retryAfterSeconds: 1,
    })
  }
  return balance
}
