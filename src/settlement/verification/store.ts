import type { PoolClient } from 'pg'
import { MONEY_EVENTS } from '../../events/balance-changes/balance-changes.sql.ts'
import type { SettlementSums } from '../../transactions/ledger/verify-transactions.ts'
import { joinPostings } from '../../transactions/transaction.sql.ts'

type TotalsRow = { id: string; count: string; gross: string; fees: string }

const TOTALS = 's.id, s.transaction_count as count, s.gross_minor as gross, s.fees_minor as fees'

/** The recorded totals of some settlements. */
export async function findSettlementTotals(
  client: PoolClient,
  ids: readonly string[],
): Promise<SettlementSums[]> {
  const { rows } = await client.query<TotalsRow>(
    `select ${TOTALS} from settlement s where s.id = any ($1)`,
    [ids],
  )
  return rows.map(toSums)
}

/** The recorded totals of settlements in id order, and whether each has any posting. */
export async function listSettlementTotals(
  client: PoolClient,
  after: string,
  limit: number,
): Promise<(SettlementSums & { readonly posted: boolean })[]> {
  const { rows } = await client.query<TotalsRow & { posted: boolean }>(
    `select ${TOTALS}, exists (
        select from ${MONEY_EVENTS} ${joinPostings('e.subject_id')}
        where e.business_id = s.business_id and e.live = s.live
          and e.business_sequence > s.from_sequence and e.business_sequence <= s.to_sequence
          and p.kind = 'settlement' and p.settlement_id = s.id) as posted
      from settlement s where s.id > $1 order by s.id limit $2`,
    [after, limit],
  )
  return rows.map((row) => ({ ...toSums(row), posted: row.posted }))
}

function toSums({ id, count, gross, fees }: TotalsRow): SettlementSums {
  return { id, count: BigInt(count), gross: BigInt(gross), fees: BigInt(fees) }
}
