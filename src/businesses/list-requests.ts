import type { InferEntity } from '@mikro-orm/core'
import type { FieldFault } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import { bindValues } from '../postgres/bind-values.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutScan, type Page } from '../postgres/page-token.ts'
import type { ApiRequestEntity } from './api-request.entity.ts'
import { PREFIX } from './request-log.ts'

/** The requests to list; an undefined or empty field does not filter. Times in epoch milliseconds. */
export interface RequestFilter {
  readonly businessId: string
  /** The businesses that the caller's token is restricted to. */
  readonly allowed: readonly string[] | undefined
  readonly live: boolean | undefined
  readonly keyId: string
  /** The first digit of the status; 0: any. */
  readonly statusClass: number
  /** A part of the path, in upper or lower case. */
  readonly path: string
  readonly requestId: string
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
}

/** A request of the log. */
export type LoggedRequest = Omit<
  InferEntity<typeof ApiRequestEntity>,
  'failed' | 'receivedAt' | 'faults' | 'bytes'
> & { readonly receivedAtMs: number; readonly faults: readonly FieldFault[] }

/** In the one row of an empty page, `id` is null. */
interface Row extends Omit<LoggedRequest, 'id' | 'faults'> {
  readonly id: string | null
  readonly readUpTo: string | null
  readonly faults: string
}

/** The most requests of all businesses that a page scans. */
const SCAN_ROWS_MAX = 2_000

/** Returns one page, newest first. For one business it reads all that is kept; for several, a bounded part. */
export async function listRequests(on: Queryable, filter: RequestFilter, page: Page) {
  const { values, bind } = bindValues()
  const range = rangeOf(filter, page, bind)
  const limit = bind(page.limit + 1)
  const [edge, source] =
    filter.businessId === ''
      ? scanAll(filter, range, bind)
      : [NO_EDGE, rangesOfBusiness(filter, range, limit, bind)]
  const { rows } = await on.query<Row>(
    `with page as materialized (select * from (${source}) newest order by id desc limit ${limit})
      select (${edge}) as "readUpTo", page.id, business_id as "businessId", live, key_id as "keyId",
        ${epochMs('received_at')} as "receivedAtMs", path, protocol, status, duration_ms as "durationMs",
        request_id as "requestId", address, code, error, faults, body
      -- One row says where the scan ended, also when nothing was found.
      from (select) one left join page on true order by page.id desc`,
    values,
  )
  const found = rows.flatMap(({ id, readUpTo: _, faults, ...rest }): LoggedRequest[] =>
    id === null ? [] : [{ ...rest, id, faults: faults === '' ? [] : JSON.parse(faults) }],
  )
  const readUpTo = rows[0]?.readUpTo
  return cutScan(found, page, ({ id }) => [id], readUpTo && [readUpTo])
}

const NO_EDGE = 'select null::text'

/** SQL: after the page before, and in the period. */
function rangeOf(
  { fromMs, toMs }: RequestFilter,
  { after }: Page,
  bind: (value: unknown) => string,
): readonly string[] {
  return [
    ...(after === undefined ? [] : [`id < ${bind(after[0])}`]),
    ...(fromMs === undefined ? [] : [`id >= ${bind(firstIdAt(PREFIX, fromMs))}`]),
    ...(toMs === undefined ? [] : [`id < ${bind(firstIdAt(PREFIX, toMs))}`]),
  ]
}

/** One range of the index for each mode and outcome; what is kept of a business bounds it. */
function rangesOfBusiness(
  filter: RequestFilter,
  range: readonly string[],
  limit: string,
  bind: (value: unknown) => string,
): string {
  const { businessId, live, statusClass } = filter
  const where = [`business_id = ${bind(businessId)}`, ...range, ...conditionsOf(filter, bind)]
  const modes = live === undefined ? [true, false] : [live]
  const outcomes = statusClass === 0 ? [true, false] : [statusClass !== 2]
  const parts = modes.flatMap((mode) =>
    outcomes.map(
      (failed) => `(select * from api_request where live = ${mode} and failed = ${failed}
        and ${where.join(' and ')} order by id desc limit ${limit})`,
    ),
  )
  return parts.join(' union all ')
}

/** Scans the newest of all businesses for rows that meet the conditions. @returns where the scan ends, and the rows */
function scanAll(
  filter: RequestFilter,
  range: readonly string[],
  bind: (value: unknown) => string,
): readonly [edge: string, source: string] {
  const { allowed, live } = filter
  const conditions = [
    ...(allowed === undefined ? [] : [`business_id = any(${bind(allowed)}::text[])`]),
    ...(live === undefined ? [] : [`live = ${live}`]),
    ...conditionsOf(filter, bind),
  ]
  const newest = `from api_request where ${['true', ...range].join(' and ')} order by id desc`
  if (conditions.length === 0) return [NO_EDGE, `select * ${newest}`]
  return [
    `select id ${newest} offset ${SCAN_ROWS_MAX - 1} limit 1`,
    `select * from (select * ${newest} limit ${SCAN_ROWS_MAX}) scanned where ${conditions.join(' and ')}`,
  ]
}

/** SQL: the conditions that no index is ordered by. */
function conditionsOf(
  { keyId, statusClass, path, requestId }: RequestFilter,
  bind: (value: unknown) => string,
): readonly string[] {
  return [
    ...(keyId === '' ? [] : [`key_id = ${bind(keyId)}`]),
    ...(statusClass === 0 ? [] : [`status / 100 = ${bind(statusClass)}::int`]),
    ...(path === '' ? [] : [`position(lower(${bind(path)}) in lower(path)) > 0`]),
    ...(requestId === '' ? [] : [`request_id = ${bind(requestId)}`]),
  ]
}
