import type { Pool } from 'pg'
import type { Page } from '../postgres/page-token.ts'
import { ACCOUNT_STATUSES, type AccountStatus, type StoredAccount } from './account.ts'
import { ACCOUNT_COLUMNS, type AccountRow, toStored } from './store.ts'

/** Which accounts; undefined: any. */
interface AccountFilter {
  readonly businessId: string | undefined
  readonly live: boolean | undefined
  /** The only businesses that there are for the caller; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
  readonly status: AccountStatus | undefined
  /** What the identity number may be hashed to. */
  readonly idNumberHashes: readonly Buffer[] | undefined
}

/** Accounts, newest first; one more than the page holds, when there is one. */
export async function listAccounts(
  pool: Pool,
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
      : idsOfPerson(filter, older, bind)
  const result = await pool.query<AccountRow>(
    `select ${ACCOUNT_COLUMNS} from account
      where id = any(array(${ids} order by id desc limit ${limit})) order by id desc`,
    values,
  )
  return result.rows.map(toStored)
}

/**
 * The newest of each mode and state, and of each business where only some are asked for: indexes have
 * these apart. Literals, so that the planner knows how rare a state is.
 */
function newestIds(
  { businessId, live, allowed, status }: AccountFilter,
  older: string,
  limit: string,
  bind: (value: unknown) => string,
): string {
  // The business that was asked for is one of the allowed ones.
  const businesses = businessId === undefined ? allowed && [...allowed] : [businessId]
  const places = businesses && bind(businesses)
  const modes = live === undefined ? [true, false] : [live]
  const statuses = status === undefined ? ACCOUNT_STATUSES : [status]
  const parts = modes.flatMap((mode) =>
    statuses.map((state) => {
      const where = `live = ${mode} and status = '${state}'${older}`
      if (places === undefined) {
        return `(select id from account where ${where} order by id desc limit ${limit})`
      }
      return `(select a.id from unnest(${places}::text[]) as b(id) cross join lateral (
          select id from account where business_id = b.id and ${where} order by id desc limit ${limit}
        ) a)`
    }),
  )
  return `select id from (${parts.join(' union all ')}) newest`
}

/** A person has few accounts. */
function idsOfPerson(
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
  // `offset 0` keeps the planner on the index of hashes.
  return `select id from (select id from account where ${where.join(' and ')} offset 0) owned`
}
