import type { Institution, Institutions } from '../banks/institutions.ts'
import { Fault } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutPage, cutScan, readPage } from '../postgres/page-token.ts'
import type { Payout, PayoutPurpose, PayoutStatus, Step } from './payout.ts'
import { findByReference, PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

/** Which payouts to list. */
export interface PayoutFilter {
  /** Of whom; undefined: of all businesses. */
  readonly businessIds: readonly string[] | undefined
  readonly live: boolean | undefined
  /** None: any. */
  readonly statuses: readonly PayoutStatus[]
  readonly purpose: PayoutPurpose | undefined
  /** When they were requested: from a time, in epoch milliseconds, until before another one. */
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  /** Refunds of this payment; empty: any. */
  readonly transactionId: string
  /** Empty: any. */
  readonly accountNumber: string
  readonly batchId: string
  readonly pageSize: number
  readonly pageToken: string
}

/** How many payouts a page of one status or purpose scans at most. */
const SCANNED_MAX = 5_000

/** One page of payouts, newest first. @throws Fault validation_failed (the page token) */
export async function listPayouts(
  on: Queryable,
  filter: PayoutFilter,
): Promise<{ readonly rows: readonly Payout[]; readonly nextPageToken: string }> {
  const page = readPage(filter.pageSize, filter.pageToken, 1)
  const { rows } = await on.query<PayoutRow & { readonly edge: string | null }>(
    `with scanned as materialized (
        select * from payout
        where ($1::text[] is null or business_id = any($1)) and ($2::boolean is null or live = $2)
          and ($3::text is null or id < $3) and ($4::text is null or id >= $4) and ($5::text is null or id < $5)
          and ($6 = '' or transaction_id = $6) and ($7 = '' or account_number = $7) and ($8 = '' or batch_id = $8)
        order by id desc limit ${SCANNED_MAX}
      ), edge as (
        -- The last payout that was scanned, if the scan ended at its limit.
        select case when count(*) = ${SCANNED_MAX} then min(id) end as edge from scanned
      )
      select edge.edge, page.* from edge left join lateral (
        select ${PAYOUT_COLUMNS} from scanned
        where (cardinality($9::text[]) = 0 or status = any($9)) and ($10::text is null or purpose = $10)
        order by id desc limit $11
      ) page on true`,
    [
      filter.businessIds ?? null,
      filter.live ?? null,
      page.after?.[0] ?? null,
      filter.fromMs === undefined ? null : firstIdAt('pay', filter.fromMs),
      filter.toMs === undefined ? null : firstIdAt('pay', filter.toMs),
      filter.transactionId,
      filter.accountNumber,
      filter.batchId,
      filter.statuses,
      filter.purpose ?? null,
      page.limit + 1,
    ],
  )
  const edge = rows[0]?.edge
  const payouts = rows.filter(({ id }) => id !== null).map(({ edge: _, ...row }) => toPayout(row))
  return cutScan(payouts, page, ({ id }) => [id], edge ? [edge] : undefined)
}

/** How many institutions a page has if the caller sets no size: all of them. */
const INSTITUTIONS_DEFAULT = 1_000

/** One page of the institutions that payouts can reach, by name. @throws Fault validation_failed (the page token) */
export function listInstitutions(
  institutions: Institutions,
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
): { readonly rows: readonly Institution[]; readonly nextPageToken: string } {
  const page = readPage(pageSize || INSTITUTIONS_DEFAULT, pageToken, 1)
  const after = Number(page.after?.[0] ?? 0)
  const rows = institutions.list().slice(after, after + page.limit + 1)
  return cutPage(rows, page, () => [`${after + page.limit}`])
}

/** The payouts that an identifier names: their own, that at the bank, the interbank one, or the caller's. */
export async function searchPayouts(
  on: Queryable,
  text: string,
  scope: {
    readonly businessIds: readonly string[] | undefined
    readonly live: boolean | undefined
  },
  limit: number,
): Promise<Payout[]> {
  const { rows } = await on.query<PayoutRow>(
    // By look-ups of four indexes; only the caller's references are not unique.
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

/** A payout by the reference of its business. @throws Fault not_found: also for a reference of another business */
export async function getByReference(
  on: Queryable,
  key: Pick<Payout, 'businessId' | 'live' | 'reference'>,
): Promise<Payout> {
  const payout = await findByReference(on, key)
  if (payout === undefined) throw new Fault('not_found', 'There is no such payout')
  return payout
}

const STEPS_MAX = 200

/** The history of a payout, oldest first. */
export async function listSteps(on: Queryable, payoutId: string): Promise<Step[]> {
  const { rows } = await on.query<Step>(
    `select round(date_part('epoch', at) * 1000) as "atMs", status, actor, text from payout_step
      where payout_id = $1 order by number limit ${STEPS_MAX}`,
    [payoutId],
  )
  return rows
}

export interface SavedBeneficiary {
  readonly bankCode: string
  readonly accountNumber: string
  readonly accountName: string
  readonly firstUsedAtMs: number
  readonly lastUsedAtMs: number
}

/** One page of those whom a business has paid, the last used first. @throws Fault validation_failed (the page token) */
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
