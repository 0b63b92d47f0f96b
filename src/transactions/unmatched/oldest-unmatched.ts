import type { BankCode } from '../../banks/bank.ts'
import { boundedScan } from '../../postgres/bounded-scan.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { isRecorded } from './store.ts'

/** An unmatched payment that waits for an operator. */
interface WaitingUnmatched {
  readonly id: string
  readonly bank: BankCode
  readonly accountNumber: string
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly createdAtMs: number
  readonly payerName: string
}

/** How many rows one page may scan; nearly all of them are listed. */
const ROWS_MAX = 1_000

/**
 * The unmatched payments that wait for an operator, oldest first.
 *
 * @param after the id of the last one of the page before; empty: the first page
 * @returns `readUpTo`: the last id that was scanned, if the scan limit ended the page
 */
export async function listOldestUnmatched(on: Queryable, after: string, limit: number) {
  const scan = boundedScan({
    columns: '*',
    from: 'unmatched_payment',
    key: 'id',
    order: 'asc',
    range: 'resolution is null and id > $2',
    filter: `not ${isRecorded('candidate')}`,
    limit: '$1',
    rowsMax: ROWS_MAX,
  })
  type Row = Omit<WaitingUnmatched, 'id' | 'amountMinor'> & {
    readonly id: string | null
    readonly amount: string
    readonly readUpTo: string | null
  }
  const { rows } = await on.query<Row>(
    `with ${scan}
      select edge.read_up_to as "readUpTo", u.id, u.bank, u.account_number as "accountNumber",
        u.session_id as "sessionId", u.amount_minor as amount,
        ${epochMs('u.created_at')} as "createdAtMs", u.payer_name as "payerName"
      from edge left join page u on true order by u.id`,
    [limit, after],
  )
  const payments = rows.flatMap(({ id, amount, readUpTo: _, ...row }): WaitingUnmatched[] =>
    id === null ? [] : [{ ...row, id, amountMinor: BigInt(amount) }],
  )
  return { payments, readUpTo: rows[0]?.readUpTo ?? undefined }
}

/** How many wait, up to a bound. */
export async function countWaitingUnmatched(on: Queryable, max: number): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from (select * from unmatched_payment where resolution is null order by id limit $1) u
        where not ${isRecorded('u')}) waiting`,
    [max],
  )
  return rows[0]?.count ?? 0
}
