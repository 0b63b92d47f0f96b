import { getBusiness } from '../../businesses/get-business.ts'
import { Fault } from '../../core/errors.ts'
import type { Database } from '../../postgres/orm.ts'
import type { Balance, Book } from '../settlement.ts'
import { readBalance } from './store.ts'

/**
 * The balance of a business. It counts every payment whose commit came before.
 *
 * @throws Fault not_found when there is no such business
 */
export async function getBalance(database: Database, book: Book): Promise<Balance> {
  await getBusiness(database, book.businessId)
  const { foreign, ...balance } = await readBalance(database.pool, book)
  if (foreign) {
    throw new Fault('unavailable', 'The database was restored, and its log of events not yet', {
      retryAfterSeconds: 60,
      cause: new Error('the event log is of another cluster: run "inflow events epoch bump"'),
    })
  }
  return balance
}
