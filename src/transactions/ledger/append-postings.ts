/** SQL: whether a posting is a share of another business than the owner of its transaction, given its kind. */
export const isShare = (kind: string) => `starts_with(${kind}, 'share_')`

/** An SQL expression for each column of a ledger posting. */
interface PostingColumns {
  readonly transaction_id: string
  readonly kind: string
  readonly business_id: string
  readonly live: string
  readonly debit_account: string
  readonly credit_account: string
  readonly amount_minor: string
  readonly created_at: string
  /** Only for postings that a settlement makes. */
  readonly settlement_id?: string
}

/** The posting of an arrived payment: the source has the columns of `transaction`. */
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
 * The SQL that appends postings to the ledger, as a part of the statement that makes the
 * transition. All postings are written by it. Postings are never changed or deleted.
 *
 * @param source the source of the rows: SQL that begins with `from`
 */
export function appendPostings(columns: PostingColumns, source: string): string {
  const [names, values] = [Object.keys(columns), Object.values(columns)]
  return `insert into ledger_posting (${names.join(', ')}) select ${values.join(', ')} ${source}`
}
