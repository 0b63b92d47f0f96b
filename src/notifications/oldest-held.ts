import type { BankCode } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import type { Queryable } from '../postgres/in-transaction.ts'

/** A notification that waits for an operator. */
interface WaitingNotification {
  readonly id: string
  readonly bank: BankCode
  readonly receivedAtMs: number
  readonly accountNumber: string
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly cause: string
}

/** The notifications in manual review, oldest first. @param after the id of the last one of the page before */
export async function listOldestHeld(
  on: Queryable,
  after: string,
  limit: number,
): Promise<readonly WaitingNotification[]> {
  const { rows } = await on.query<Omit<WaitingNotification, 'amountMinor'> & { amount: string }>(
    `select id, bank, ${epochMs('received_at')} as "receivedAtMs", cause,
        account_number as "accountNumber", session_id as "sessionId", amount_minor as amount
      from bank_notification where state = 'MANUAL_REVIEW' and id > $1 order by id limit $2`,
    [after, limit],
  )
  return rows.map(({ amount, ...row }) => ({ ...row, amountMinor: BigInt(amount) }))
}

/** How many wait, up to a bound. */
export async function countHeld(on: Queryable, max: number): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from bank_notification where state = 'MANUAL_REVIEW' order by id limit $1) held`,
    [max],
  )
  return rows[0]?.count ?? 0
}
