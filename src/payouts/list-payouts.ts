import type { BusinessScope } from '../auth/caller.ts'
import type { Institution, Institutions } from '../banks/institutions.ts'
import { Fault } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutPage, cutScan, readPage } from '../postgres/page-token.ts'
import { bindValues } from '../postgres/statement.ts'
import {
  type Destination,
  isFinal,
  type Payout,
  type PayoutPurpose,
  type PayoutStatus,
  type Step,
} from './payout.ts'
import { findByReference, PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

/** Which payouts to list. */
export interface PayoutFilter extends BusinessScope {
  /** Empty: any status. */
  readonly statuses: readonly PayoutStatus[]
  readonly purpose?: PayoutPurpose | undefined
  /** When the payouts were requested, in epoch milliseconds; `toMs` is exclusive. */
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
  /** Selects the refunds of this payment; empty: any payout. */
  readonly transactionId?: string
  /** Empty: any. */
  readonly accountNumber?: string
  readonly batchId?: string
  readonly pageSize: number
  readonly pageToken: string
}

/** The most payouts that a page reads if no index matches its filter. */
const ROWS_MAX = 1_000

/** One page of payouts, newest first. @throws Fault validation_failed (the page token) */
export async function listPayouts(
  on: Queryable,
  filter: PayoutFilter,
): Promise<{ readonly rows: readonly Payout[]; readonly nextPageToken: string }> {
  const page = readPage(filter.pageSize, filter.pageToken, 1)
  const { values, bind } = bindValues()
  const older = page.after === undefined ? '' : ` and id < ${bind(page.after[0])}`
  const [edge, ids] = newestIds(filter, older, bind(page.limit + 1), bind)
  const { rows } = await on.query<{ read_up_to: string | null } & (PayoutRow | { id: null })>(
    `with edge as materialized (${edge}), listed as (
        select * from payout where id = any(array(${ids}))
      )
      select (select id from edge) as read_up_to, ${PAYOUT_COLUMNS}
      -- The outer join returns where the scan ended even if nothing was found.
      from (select) one left join listed on true order by id desc`,
    values,
  )
  const payouts = rows.flatMap(({ read_up_to: _, ...row }) =>
    row.id === null ? [] : [toPayout(row as PayoutRow)],
  )
  const edgeId = rows[0]?.read_up_to
  return cutScan(payouts, page, ({ id }) => [id], edgeId ? [edgeId] : undefined)
}

/**
 * Selects the newest ids of each index range. A range is a payment, a batch or an account if the filter names one, and
 * otherwise each mode, or each business in each mode. With further conditions, each range is read up to a bound.
 *
 * @returns `edge`, a subquery of the newest id at which the bound cut a range, and `ids`, a subquery of the ids
 */
function newestIds(
  filter: PayoutFilter,
  older: string,
  limit: string,
  bind: (value: unknown) => string,
): readonly [edge: string, ids: string] {
  const { businessIds, live, fromMs, toMs, statuses } = filter
  const businesses = businessIds && `${bind(businessIds)}::text[]`
  const from = fromMs === undefined ? '' : ` and id >= ${bind(firstIdAt('pay', fromMs))}`
  const to = toMs === undefined ? '' : ` and id < ${bind(firstIdAt('pay', toMs))}`
  // Few payouts have a status that is not final, and a partial index covers these payouts.
  const isOpen = statuses.length > 0 && !statuses.some(isFinal)
  const open = isOpen ? ' and completed_at is null' : ''
  const [key, ...others] = namedBy(filter, bind)
  const modes = live === undefined ? [true, false] : [live]
  const ranges = (cut: string) => {
    const where = `${older}${from}${to}${open} order by id desc ${cut}`
    if (key !== undefined) return `(select * from payout where ${key}${where}) newest`
    const parts = modes.map((mode) => {
      // The indexes of a mode, and of a business in it, include the status and the purpose.
      const range = (of: string) =>
        `select id, status, purpose from payout where ${of}live = ${mode}${where}`
      if (businesses === undefined) return `(${range('')})`
      // With a single business in the condition, the planner can use the column statistics for its value.
      if (businessIds?.length === 1) return `(${range(`business_id = (${businesses})[1] and `)})`
      return `(select p.* from unnest(${businesses}) as b(id) cross join lateral (${range('business_id = b.id and ')}) p)`
    })
    return `(${parts.join(' union all ')}) newest`
  }
  const conditions = [
    ...(statuses.length === 0 ? [] : [`status = any(${bind(statuses)}::text[])`]),
    ...(filter.purpose === undefined ? [] : [`purpose = ${bind(filter.purpose)}`]),
    ...others,
    ...(key === undefined || businesses === undefined ? [] : [`business_id = any(${businesses})`]),
    ...(key === undefined || live === undefined ? [] : [`live = ${live}`]),
  ]
  const newest = `order by id desc limit ${limit}`
  if (conditions.length === 0) {
    return ['select null::text as id', `select id from ${ranges(`limit ${limit}`)} ${newest}`]
  }
  const count = key === undefined ? modes.length * (businessIds?.length ?? 1) : 1
  const rowsMax = Math.max(1, Math.ceil(ROWS_MAX / count))
  return [
    `select id from ${ranges(`offset ${rowsMax - 1} limit 1`)} order by id desc limit 1`,
    `select id from ${ranges(`limit ${rowsMax}`)}
      where ${conditions.join(' and ')} and id >= coalesce((select id from edge), '') ${newest}`,
  ]
}

/** SQL conditions on the leading column of an index, the most selective first. */
function namedBy(
  { transactionId = '', batchId = '', accountNumber = '' }: PayoutFilter,
  bind: (value: unknown) => string,
): readonly string[] {
  return [
    ...(transactionId === '' ? [] : [`transaction_id = ${bind(transactionId)}`]),
    ...(batchId === '' ? [] : [`batch_id = ${bind(batchId)}`]),
    ...(accountNumber === '' ? [] : [`account_number = ${bind(accountNumber)}`]),
  ]
}

/** Finds a payout by its business, mode and reference. @throws Fault not_found */
export async function getByReference(
  on: Queryable,
  key: Pick<Payout, 'businessId' | 'live' | 'reference'>,
): Promise<Payout> {
  const payout = await findByReference(on, key)
  if (payout === undefined) throw new Fault('not_found', 'There is no such payout')
  return payout
}

/** The default page size, which is large enough for all institutions. */
const INSTITUTIONS_DEFAULT = 1_000

/** One page of the institutions that payouts can reach, sorted by name. @throws Fault validation_failed (the page token) */
export function listInstitutions(
  institutions: Institutions,
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
): { readonly rows: readonly Institution[]; readonly nextPageToken: string } {
  const page = readPage(pageSize || INSTITUTIONS_DEFAULT, pageToken, 1)
  const after = Number(page.after?.[0] ?? 0)
  const rows = institutions.list().slice(after, after + page.limit + 1)
  return cutPage(rows, page, () => [`${after + page.limit}`])
}

/** Finds payouts by their id, our reference at the bank, the interbank session id, or the caller's reference. */
export async function searchPayouts(
  on: Queryable,
  text: string,
  scope: BusinessScope,
  limit: number,
): Promise<Payout[]> {
  const { rows } = await on.query<PayoutRow>(
    // Four index look-ups. Only the caller's reference can match many payouts, so only that look-up has a limit.
    `select ${PAYOUT_COLUMNS} from payout
      where id = any (array(
          select id from payout where id = $1
          union all select id from payout where bank_reference = $2
          union all select id from payout where session_id = $1 and session_id <> ''
          union all (
            select id from payout where reference = $1 and ($3::text[] is null or business_id = any($3))
              and ($4::boolean is null or live = $4)
            order by id desc limit $5
          )))
        and ($3::text[] is null or business_id = any($3)) and ($4::boolean is null or live = $4)
      order by id desc limit $5`,
    [text, text.toUpperCase(), scope.businessIds ?? null, scope.live ?? null, limit],
  )
  return rows.map(toPayout)
}

const STEPS_MAX = 200

/** The newest steps of a payout, oldest first. */
export async function listSteps(on: Queryable, payoutId: string): Promise<Step[]> {
  const { rows } = await on.query<Step>(
    `select round(date_part('epoch', at) * 1000) as "atMs", status, actor, text from (
        select * from payout_step where payout_id = $1 order by number desc limit ${STEPS_MAX}
      ) newest order by number`,
    [payoutId],
  )
  return rows
}

interface SavedBeneficiary extends Omit<Destination, 'bankName'> {
  readonly firstUsedAtMs: number
  readonly lastUsedAtMs: number
}

/** One page of the beneficiaries of a business, the last used first. @throws Fault validation_failed (the page token) */
export async function listBeneficiaries(
  on: Queryable,
  request: {
    readonly businessId: string
    readonly live: boolean
    readonly pageSize: number
    readonly pageToken: string
  },
) {
  const page = readPage(request.pageSize, request.pageToken, 3)
  const [atMs = null, bankCode = '', accountNumber = ''] = page.after ?? []
  const { rows } = await on.query<SavedBeneficiary>(
    `select bank_code as "bankCode", account_number as "accountNumber", account_name as "accountName",
        round(date_part('epoch', first_used_at) * 1000) as "firstUsedAtMs",
        round(date_part('epoch', last_used_at) * 1000) as "lastUsedAtMs"
      from payout_beneficiary
      where business_id = $1 and live = $2 and ($3::float8 is null
        or (last_used_at, bank_code, account_number) < (to_timestamp($3::float8 / 1000), $4, $5))
      order by last_used_at desc, bank_code desc, account_number desc limit $6`,
    [request.businessId, request.live, atMs, bankCode, accountNumber, page.limit + 1],
  )
  return cutPage(rows, page, (row) => [`${row.lastUsedAtMs}`, row.bankCode, row.accountNumber])
}
