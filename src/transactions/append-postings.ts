/** What each column of a ledger posting gets: an SQL expression. */
interface PostingColumns {
  readonly transaction_id: string
  readonly kind: string
  readonly business_id: string
  readonly live: string
  readonly debit_account: string
  readonly credit_account: string
  readonly amount_minor: string
  readonly created_at: string
  /** Of postings that a settlement makes. */
  readonly settlement_id?: string
}

/** Money that arrived: columns of rows of `transaction`. */
export const PAYMENT_POSTING: PostingColumns = {
  transaction_id: 'id',
  kind: "'payment'",
  business_id: 'business_id',
  live: 'live',
  debit_account: "'clearing:' || bank",
  credit_account: "'pending'",
  amount_minor: 'amount_minor',
  created_at: 'created_at',
}

/**
 * The one statement that appends postings to the ledger, as a part of the statement that makes the
 * move. Nothing changes or deletes a posting.
 *
 * @param source of the rows, from `from` on
 */
export function appendPostings(columns: PostingColumns, source: string): string {
  const [names, values] = [Object.keys(columns), Object.values(columns)]
  return `insert into ledger_posting (${names.join(', ')}) select ${values.join(', ')} ${source}`
}
