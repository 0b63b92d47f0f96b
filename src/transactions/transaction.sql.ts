/** SQL that joins the transaction `t` of an id. */
export function joinTransaction(id: string): string {
  return `join transaction t on t.id = ${id}`
}

/** SQL: all transactions `t`. */
export const TRANSACTIONS = 'transaction t'

/** SQL: whether the transaction `t` is waiting for its settlement. */
export const IS_UNSETTLED = "t.status = 'SUCCESS' and t.settled_at is null"

/** SQL that joins the postings `p` of a transaction. */
export function joinPostings(transactionId: string): string {
  return `join ledger_posting p on p.transaction_id = ${transactionId}`
}

/** SQL expressions of `markSettled`. */
interface MarkSettled {
  /** The rows that name transactions, with their alias. */
  readonly from: string
  /** Which transactions `t` of `from` to settle. */
  readonly where: string
  readonly settledAt: string
  readonly returning: string
}

/** The SQL that marks the unsettled among some transactions `t` as settled. */
export function markSettled({ from, where, settledAt, returning }: MarkSettled): string {
  return `update transaction t set settled_at = ${settledAt} from ${from}
        where ${where} and ${IS_UNSETTLED} returning ${returning}`
}
