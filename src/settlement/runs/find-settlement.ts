import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Settlement } from '../settlement.ts'
import { SETTLEMENT_COLUMNS, type SettlementRow, toSettlement } from './store.ts'

export async function findSettlement(on: Queryable, id: string): Promise<Settlement | undefined> {
  const { rows } = await on.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from settlement where id = $1`,
    [id],
  )
  return rows[0] && toSettlement(rows[0])
}
