import { isAccountNumber } from '../banks/bank-fields.ts'
import { bindValues } from '../postgres/bind-values.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { StoredAccount } from './account.ts'
import { ACCOUNT_COLUMNS, type AccountRow, toStored } from './store.ts'

/** What to search among. */
export interface AccountScope {
  /** Undefined: all. */
  readonly businessIds: readonly string[] | undefined
  /** Undefined: both modes. */
  readonly live: boolean | undefined
}

/**
 * The accounts that a text names: by id, by either reference, by number, or by the customer's e-mail address.
 * Newest first for one business; otherwise any of them, if there are more than the limit.
 */
export async function searchAccounts(
  on: Queryable,
  text: string,
  scope: AccountScope,
  limit: number,
): Promise<readonly StoredAccount[]> {
  const { values, bind } = bindValues(text, limit)
  const parts = text.includes('@') ? emailParts(scope, bind) : columnParts(text, scope, bind)
  const { rows } = await on.query<AccountRow>(
    `select ${ACCOUNT_COLUMNS} from account
      where id = any (array(select id from (${parts.join(' union ')}) found limit $2)) order by id desc`,
    values,
  )
  return rows.map(toStored)
}

/** One probe of an index for each column. */
function columnParts(
  text: string,
  { businessIds, live }: AccountScope,
  bind: (value: unknown) => string,
): readonly string[] {
  const where = [
    'true',
    ...(businessIds === undefined ? [] : [`business_id = any (${bind(businessIds)}::text[])`]),
    ...(live === undefined ? [] : [`live = ${live}`]),
  ].join(' and ')
  return columnsOf(text).map((column) => {
    // `offset 0` keeps the planner on the index of the column.
    const found = `select * from account where ${column} = $1 offset 0`
    return `(select id from (${found}) found where ${where} limit $2)`
  })
}

/** The indexed columns that the text may be a value of. */
function columnsOf(text: string): readonly string[] {
  return [
    'merchant_reference',
    ...(/^acc_/.test(text) ? ['id'] : []),
    ...(/^R-/.test(text) ? ['reference'] : []),
    ...(isAccountNumber(text) ? ['account_number'] : []),
  ]
}

/** One range of the index for each mode, and for each business if the scope names some. */
function emailParts(
  { businessIds, live }: AccountScope,
  bind: (value: unknown) => string,
): readonly string[] {
  const modes = live === undefined ? [true, false] : [live]
  if (businessIds === undefined) {
    return modes.map(
      (mode) => `(select id from account where email = $1 and live = ${mode}
        order by email desc, live desc, business_id desc, id desc limit $2)`,
    )
  }
  const ids = bind(businessIds)
  return modes.map(
    (mode) => `(select a.id from unnest(${ids}::text[]) as b(id) cross join lateral (
        select id from account where email = $1 and live = ${mode} and business_id = b.id
        order by id desc limit $2) a order by a.id desc limit $2)`,
  )
}
