import type { EntityManager } from '@mikro-orm/postgresql'
import type { NotNull } from 'kysely'
import type { Pool } from 'pg'
import type { BusinessScope } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import { isAccountNumber } from '../banks/bank-fields.ts'
import { assert } from '../core/errors.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Page } from '../postgres/page-token.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import { bindValues } from '../postgres/statement.ts'
import type { AccountEntity } from './account.entity.ts'
import {
  ACCOUNT_STATUSES,
  type AccountStatus,
  type OpeningState,
  type StoredAccount,
} from './account.ts'
import type { Split } from './splits/split.ts'
import { findSplits } from './splits/split-store.ts'
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
  readonly bank?: BankCode | undefined
  /** The address as it is stored; needs a business. */
  readonly customerEmail?: string | undefined
  /** Only pending accounts in one of these states. */
  readonly openingStates?: readonly OpeningState[] | undefined
}

/** The most accounts that a page reads if no index has the order of its filter. */
const ROWS_MAX = 1_000

/** A page of accounts, newest first, with their current splits. */
interface ListedAccounts {
  /** One more account than the page holds if there are more. */
  readonly accounts: readonly StoredAccount[]
  /** The id of the last account that was read, if the scan stopped at its bound. */
  readonly readUpTo: string | undefined
  /** By account. */
  readonly splits: ReadonlyMap<string, Split>
}

export async function listAccounts(
  on: Queryable,
  filter: AccountFilter,
  page: Page,
): Promise<ListedAccounts> {
  const { values, bind } = bindValues()
  const after = page.after?.[0]
  const older = after === undefined ? '' : ` and id < ${bind(after)}`
  const limit = bind(page.limit + 1)
  const [edge, ids] =
    filter.idNumberHashes === undefined
      ? newestIds(filter, older, limit, bind)
      : [NO_EDGE, idsByIdentity(filter, older, bind)]
  const { rows } = await on.query<{ read_up_to: string | null } & (AccountRow | { id: null })>(
    `with edge as materialized (${edge}), listed as (
        select * from account where id = any(array(${ids} order by id desc limit ${limit}))
      )
      select (select id from edge) as read_up_to, ${ACCOUNT_COLUMNS}
      -- One row says where the scan ended, also when nothing was found.
      from (select) one left join listed on true order by id desc`,
    values,
  )
  const accounts = rows.flatMap((row) => (row.id === null ? [] : [toStored(row)]))
  const accountIds = accounts.map(({ id }) => id)
  const readUpTo = rows[0]?.read_up_to ?? undefined
  return { accounts, readUpTo, splits: await findSplits(on, accountIds) }
}

const NO_EDGE = 'select null::text as id'

/**
 * Selects the newest ids of each mode and status, or of each mode and the customer, and of each business if the filter
 * names some: each such combination is one index range. Mode and status are literals, so that the planner knows
 * how rare a status is. With further conditions, each range is read up to a bound.
 *
 * @returns a subquery of the latest id at which a range stopped at its bound, and a subquery of the ids
 */
function newestIds(
  filter: AccountFilter,
  older: string,
  limit: string,
  bind: (value: unknown) => string,
): readonly [edge: string, ids: string] {
  const { businessId, live, allowed, customerEmail } = filter
  // The caller has checked that a requested business is allowed.
  const businesses = businessId === undefined ? allowed && [...allowed] : [businessId]
  const businessIds = businesses && bind(businesses)
  const modes = live === undefined ? [true, false] : [live]
  const keys =
    customerEmail === undefined
      ? statusesOf(filter).map((status) => `status = '${status}'`)
      : [`email = ${bind(customerEmail)}`]
  const ranges = (cut: string) => {
    const parts = modes.flatMap((mode) =>
      keys.map((key) => {
        const where = `live = ${mode} and ${key}${older} order by id desc ${cut}`
        if (businessIds === undefined) {
          return `(select id, bank, status, opening_state from account where ${where})`
        }
        return `(select a.* from unnest(${businessIds}::text[]) as b(id) cross join lateral (
          select id, bank, status, opening_state from account where business_id = b.id and ${where}) a)`
      }),
    )
    return `(${parts.join(' union all ')}) newest`
  }
  const conditions = conditionsOf(filter, bind)
  if (conditions.length === 0) return [NO_EDGE, `select id from ${ranges(`limit ${limit}`)}`]
  const rowsMax = Math.ceil(ROWS_MAX / (modes.length * keys.length * (businesses?.length ?? 1)))
  return [
    `select id from ${ranges(`offset ${rowsMax - 1} limit 1`)} order by id desc limit 1`,
    `select id from ${ranges(`limit ${rowsMax}`)}
      where ${conditions.join(' and ')} and id >= coalesce((select id from edge), '')`,
  ]
}

/** The requested statuses: only a pending account has an opening state. */
function statusesOf({ status, openingStates }: AccountFilter): readonly AccountStatus[] {
  if (status !== undefined) return [status]
  return openingStates === undefined ? ACCOUNT_STATUSES : ['PENDING']
}

/** SQL: conditions that no index is ordered by. */
function conditionsOf(filter: AccountFilter, bind: (value: unknown) => string): readonly string[] {
  const { bank, openingStates, customerEmail } = filter
  const statuses = statusesOf(filter)
  const isAnyStatus = customerEmail === undefined || statuses.length === ACCOUNT_STATUSES.length
  return [
    ...(isAnyStatus ? [] : [`status = any (${bind(statuses)}::text[])`]),
    ...(bank === undefined ? [] : [`bank = ${bind(bank)}`]),
    ...(openingStates === undefined
      ? []
      : [`opening_state = any (${bind(openingStates)}::text[])`]),
  ]
}

/** Selects by identity number; a customer has few accounts, so no further index is needed. */
function idsByIdentity(
  filter: AccountFilter,
  older: string,
  bind: (value: unknown) => string,
): string {
  const { businessId, live, allowed, status, idNumberHashes, openingStates, customerEmail } = filter
  const businesses = businessId === undefined ? allowed && [...allowed] : [businessId]
  const where = [
    `id_number_hash = any(${bind(idNumberHashes)}::bytea[])${older}`,
    ...(businesses ? [`business_id = any(${bind(businesses)}::text[])`] : []),
    ...(live === undefined ? [] : [`live = ${live}`]),
    ...(status === undefined ? [] : [`status = '${status}'`]),
    ...(openingStates === undefined ? [] : [`status = 'PENDING'`]),
    ...(customerEmail === undefined ? [] : [`email = ${bind(customerEmail)}`]),
    ...conditionsOf(filter, bind),
  ]
  // `offset 0` makes the planner use the index on `id_number_hash`.
  return `select id from (select id from account where ${where.join(' and ')} offset 0) matching`
}

/**
 * The accounts that a text names: by id, by either reference, by number, or by the customer's e-mail address.
 * Newest first for one business; otherwise, if there are more than the limit, any of them.
 */
export async function searchAccounts(
  on: Queryable,
  text: string,
  scope: BusinessScope,
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

/** The matching rows among the latest rows, and the time back to which was searched; undefined: all were searched. */
export interface FoundAmongLatest<Row> {
  readonly rows: readonly Row[]
  readonly sinceMs: number | undefined
}

/**
 * Searches the `latest` accounts for a text: a part of an identifier, a reference, the number, or the customer's name,
 * phone number or e-mail address. Newest first. No index serves such a search, so older accounts are not searched.
 */
export async function searchLatestAccounts(
  on: Queryable,
  text: string,
  { businessIds, live }: BusinessScope,
  { latest, limit }: { readonly latest: number; readonly limit: number },
): Promise<FoundAmongLatest<StoredAccount>> {
  const perRange =
    businessIds === undefined ? latest : Math.ceil(latest / (4 * (businessIds.length || 1)))
  // Each business and mode has an index by status and id.
  const scanned =
    businessIds === undefined
      ? `select '' as range, a.* from (select * from account order by id desc limit $2) a`
      : `select r.id as range, a.* from ${RANGES_OF_BUSINESSES} cross join lateral (select * from account
          where business_id = r.business_id and live = r.live and status = r.status
          order by id desc limit $2) a`
  const ranges = businessIds === undefined ? "unnest(array['']) as r(id)" : RANGES_OF_BUSINESSES
  const values = [text.toLowerCase(), perRange, limit, live ?? null, phonePart(text)]
  const { rows } = await on.query<AccountRow & { id: string | null; since_ms: number | null }>(
    `with scanned as materialized (${scanned}), edge as (
        select max(since) as since from ${ranges} cross join lateral (
          select min(created_at) as since from scanned where range = r.id having count(*) >= $2) e
      ), found as (
        select * from scanned a where live = coalesce($4, live) and (
          position($1 in lower(first_name || ' ' || last_name)) > 0 or position($1 in lower(email)) > 0
          or position($5 in phone) > 0 or position($1 in lower(merchant_reference)) > 0
          or position($1 in account_number) > 0 or position($1 in lower(reference)) > 0 or position($1 in id) > 0)
        order by id desc limit $3
      )
      select round(date_part('epoch', edge.since) * 1000) as since_ms, ${ACCOUNT_COLUMNS}
      from edge left join found account on true order by id desc`,
    businessIds === undefined ? values : [...values, businessIds],
  )
  return {
    rows: rows.flatMap((row) => (row.id === null ? [] : [toStored(row as AccountRow)])),
    sinceMs: rows[0]?.since_ms ?? undefined,
  }
}

const RANGES_OF_BUSINESSES = `(select b.id || ' ' || m.live || ' ' || s.status as id, b.id as business_id, m.live, s.status
  from unnest($6::text[]) as b(id) cross join unnest(array[true, false]) as m(live)
    cross join unnest(array['PENDING', 'ACTIVE', 'CLOSED', 'EXPIRED']) as s(status)) r`

/** The digits that every spelling of a phone number contains; null: the text is not a phone number. */
function phonePart(text: string): string | null {
  const digits = text.replace(/[ ()-]/g, '')
  return /^(?:\+?234|0)?(\d{5,14})$/.exec(digits)?.[1] ?? null
}

/** One probe of an index for each column. */
function columnParts(
  text: string,
  { businessIds, live }: BusinessScope,
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
  { businessIds, live }: BusinessScope,
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

/**
 * The open accounts that the real bank has opened, by id. Accounts are listed for some days after they ended or were closed,
 * because banks report some payments late.
 *
 * @param afterId the last account of the previous page; empty at the beginning
 */
export async function listOpenAccounts(
  em: EntityManager,
  bank: BankCode,
  afterId: string,
  limit: number,
) {
  return queriesOf<typeof AccountEntity>(em)
    .selectFrom('account')
    .select(['id', 'reference', 'accountNumber', 'bankAccountId'])
    .where('bank', '=', bank)
    .where(({ or, eb }) => or([eb('status', '=', 'ACTIVE'), eb('endDueAt', 'is not', null)]))
    .where('live', '=', true)
    .where('connector', '=', 'live')
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .$narrowType<{ accountNumber: NotNull }>()
    .execute()
}

/**
 * Claims the right to ask the bank for the payments of an account. One call at a time gets the claim, across all instances.
 *
 * @param everyMs how long no other call gets the claim
 * @returns how long the caller has to wait, in milliseconds; 0: the caller has the claim
 */
export async function claimRequery(
  pool: Pool,
  accountId: string,
  nowMs: number,
  everyMs: number,
): Promise<number> {
  const { rows } = await pool.query<{ claimed: boolean; before_ms: number | null }>(
    `with claimed as (
        update account set requeried_at = $2
        where id = $1 and (requeried_at is null or requeried_at <= $3)
        returning id
      )
      select exists (select from claimed) as claimed,
      round(date_part('epoch', requeried_at) * 1000) as before_ms
      from account where id = $1`,
    [accountId, new Date(nowMs), new Date(nowMs - everyMs)],
  )
  const [row] = rows
  assert(row, 'an account that was opened is never deleted')
  if (row.claimed) return 0
  // Another call may have begun after this one and claimed before it.
  const sinceMs = Math.max(0, nowMs - (row.before_ms ?? nowMs))
  return Math.max(1, everyMs - sinceMs)
}
