import { joinAccount } from '../../accounts/account.sql.ts'
import type { BankCode } from '../../banks/bank.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { joinTransaction } from '../transaction.sql.ts'
import type { TransactionStatus } from '../transaction.ts'

/** A report that contradicts a recorded payment, and waits for an operator. */
interface WaitingConflict {
  readonly id: string
  readonly bank: BankCode
  readonly businessId: string
  readonly live: boolean
  readonly transactionId: string
  readonly sessionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
  readonly recordedAccountNumber: string
  readonly recordedAmountMinor: bigint
  readonly recordedStatus: TransactionStatus
  readonly createdAtMs: number
}

/** Which conflicts; undefined: all. */
interface ConflictFilter {
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
}

/** How many rows one page may scan. */
const ROWS_MAX = 1_000

const FILTER =
  '($2::text[] is null or t.business_id = any ($2)) and ($3::boolean is null or t.live = $3)'

/** The open reports after an id, and those of them that pass the filter. */
const open = (after: string, rows: string) =>
  `(select * from payment_conflict where resolved_at is null and id > ${after} order by id limit ${rows}) c
    ${joinTransaction('c.transaction_id')}`

/**
 * The open reports that contradict recorded payments, oldest first.
 *
 * @param after the id of the last one of the page before; empty: the first page
 * @returns `readUpTo`: the last id that was scanned, if the scan limit ended the page
 */
export async function listOldestConflicts(
  on: Queryable,
  { businessIds, live }: ConflictFilter,
  after: string,
  limit: number,
) {
  type Row = Omit<WaitingConflict, 'amountMinor' | 'recordedAmountMinor'> & {
    readonly amount: string
    readonly recordedAmount: string
  }
  const { rows } = await on.query<Row>(
    `select c.id, t.bank, t.business_id as "businessId", t.live, t.id as "transactionId",
        t.session_id as "sessionId", c.account_number as "accountNumber", c.amount_minor as amount,
        c.status, a.account_number as "recordedAccountNumber", t.amount_minor as "recordedAmount",
        t.status as "recordedStatus", ${epochMs('c.created_at')} as "createdAtMs"
      from ${open('$1', `${ROWS_MAX}`)} ${joinAccount('t.account_id')}
      where ${FILTER} order by c.id limit $4`,
    [after, businessIds ?? null, live ?? null, limit],
  )
  const conflicts = rows.map(
    ({ amount, recordedAmount, ...row }): WaitingConflict => ({
      ...row,
      amountMinor: BigInt(amount),
      recordedAmountMinor: BigInt(recordedAmount),
    }),
  )
  const readUpTo = conflicts.length < limit ? await lastScanned(on, after) : undefined
  return { conflicts, readUpTo }
}

/** @returns the last id that a page after `after` scans; undefined if it scans all */
async function lastScanned(on: Queryable, after: string): Promise<string | undefined> {
  const { rows } = await on.query<{ id: string }>(
    `select id from payment_conflict where resolved_at is null and id > $1
      order by id offset ${ROWS_MAX - 1} limit 1`,
    [after],
  )
  return rows[0]?.id
}

/** How many of the oldest so many open reports pass the filter. */
export async function countWaitingConflicts(
  on: Queryable,
  { businessIds, live }: ConflictFilter,
  max: number,
): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from ${open("''", '$1')} where ${FILTER}`,
    [max, businessIds ?? null, live ?? null],
  )
  return rows[0]?.count ?? 0
}
