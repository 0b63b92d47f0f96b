import type { Queryable } from '../postgres/in-transaction.ts'
import type { Page } from '../postgres/page-token.ts'
import { ACCOUNT_STATUSES, type AccountStatus, type StoredAccount } from './account.ts'
import { ACCOUNT_COLUMNS, type AccountRow, toStored } from './store.ts'

/** Which accounts to list; an undefined field does not filter. */
interface AccountFilter {
  readonly businessId: string | undefined
  readonly live: boolean | undefined
  /** The businesses that the caller may see; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
  readonly status: AccountStatus | undefined
  /** The hashes that the identity number may be stored as. */
  readonly idNumberHashes: readonly Buffer[] | undefined
}

/** Returns accounts, newest first, and one more than the page holds if there are more. */
export async function listAccounts(
  pool: Queryable,
  filter: AccountFilter,
  page: Page,
): Promise<StoredAccount[]> {
  const values: unknown[] = []
  const bind = (value: unknown) => `$${values.push(value)}`
  const after = page.after?.[0]
  const older = after === undefined ? '' : ` and id < ${bind(after)}`
  const limit = bind(page.limit + 1)
  const ids =
    filter.idNumberHashes === undefined
      ? newestIds(filter, older, limit, bind)
      : idsByIdentity(filter, older, bind)
  const result = await pool.query<AccountRow>(
    `select ${ACCOUNT_COLUMNS} from account
      where id = any(array(${ids} order by id desc limit ${limit})) order by id desc`,
    values,
  )
  return result.rows.map(toStored)
}

/**
 * Selects the newest ids of each mode and status, and of each business if the filter names some:
 * each such combination is one index range. Mode and status are literals, so that the planner knows
 * how rare a status is.
 */
function newestIds(
  { businessId, live, allowed, status }: AccountFilter,
  older: string,
  limit: string,
  bind: (value: unknown) => string,
): string {
  // A requested business is one of the allowed ones.
  const businesses = businessId === undefined ? allowed && [...allowed] : [businessId]
  const businessIds = businesses && bind(businesses)
  const modes = live === undefined ? [true, false] : [live]
  const statuses = status === undefined ? ACCOUNT_STATUSES : [status]
  const parts = modes.flatMap((mode) =>
    statuses.map((state) => {
      const where = `live = ${mode} and status = '${state}'${older}`
      if (businessIds === undefined) {
        return `(select id from account where ${where} order by id desc limit ${limit})`
      }
      return `(select a.id from unnest(${businessIds}::text[]) as b(id) cross join lateral (
          select id from account where business_id = b.id and ${where} order by id desc limit ${limit}
        ) a)`
    }),
  )
  return `select id from (${parts.join(' union all ')}) newest`
}

/** Selects by identity number; a customer has few accounts, so no further index is needed. */
function idsByIdentity(
  { businessId, live, allowed, status, idNumberHashes }: AccountFilter,
  older: string,
  bind: (value: unknown) => string,
): string {
  const businesses = businessId === undefined ? allowed && [...allowed] : [businessId]
  const where = [
    `id_number_hash = any(${bind(idNumberHashes)}::bytea[])${older}`,
    ...(businesses ? [`business_id = any(${bind(businesses)}::text[])`] : []),
    ...(live === undefined ? [] : [`live = ${live}`]),
    ...(status === undefined ? [] : [`status = '${status}'`]),
  ]
  // `offset 0` makes the planner use the index on `id_number_hash`.
  return `select id from (select id from account where ${where.join(' and ')} offset 0) matching`
}
