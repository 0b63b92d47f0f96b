import type { InferEntity } from '@mikro-orm/core'
import type { Pool } from 'pg'
import { Counter } from 'prom-client'
import type { AnsweredRequest } from '../auth/caller.ts'
import { DAY_MS } from '../core/durations.ts'
import type { FieldFault } from '../core/errors.ts'
import { firstIdAt, newId } from '../core/ids.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { booleanArray, integerArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutScan, type Page } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { bindValues } from '../postgres/statement.ts'
import type { ApiRequestEntity } from './business.entity.ts'

/** The prefix of the ids of logged requests. */
const PREFIX = 'arq'

const KEPT_MS = 7 * DAY_MS

/** The bounds for a business and mode: once for requests that succeeded, once for requests that failed. */
const KEPT = { rows: 10_000, bytes: 8 * 1_024 * 1_024 } as const

/** The most requests that wait for the next write, in total and of one business, mode and outcome. */
const WAITING_MAX = 2_000
const WAITING_OF_ONE_MAX = 200

/** The intervals at which waiting requests are written, and old or excess requests are deleted. */
const WRITE_MS = 1_000
const TRIM_MS = 30_000

/** The most rows that one statement deletes, and the most statements of one run. */
const DELETED_ROWS = 2_000
const DELETES_MAX = 50

/** The most characters of each text that are kept. */
const TEXT_MAX = 500
const FAULTS_MAX = 20

export type RequestLog = ReturnType<typeof createRequestLog>

/** Stores requests, for the business that made them and for operators. */
export function createRequestLog(
  { database: { relaxedPool }, clock, safeClock, log, metrics }: Runtime,
  kept: { readonly rows: number; readonly bytes: number } = KEPT,
) {
  const counted = new Counter({
    name: 'inflow_api_requests_logged_total',
    help: 'Requests with a secret key, by whether the log of requests has them ("written") or not ("dropped").',
    labelNames: ['outcome'],
    registers: [metrics],
  })
  let waiting: Row[] = []
  let ofGroup = new Map<string, number>()
  const written = new Map<string, Group>()
  const drop = (count: number): void => counted.inc({ outcome: 'dropped' }, count)
  const record = (request: AnsweredRequest): void => {
    const group = groupOf(request)
    const key = keyOf(group)
    const count = ofGroup.get(key) ?? 0
    if (waiting.length >= WAITING_MAX || count >= WAITING_OF_ONE_MAX) {
      drop(1)
      return
    }
    ofGroup.set(key, count + 1)
    waiting.push(toRow(request, clock.now()))
  }
  const write = async (): Promise<void> => {
    const rows = waiting
    if (rows.length === 0) return
    waiting = []
    ofGroup = new Map()
    try {
      await insertRequests(relaxedPool, rows)
      counted.inc({ outcome: 'written' }, rows.length)
      for (const row of rows) written.set(keyOf(row), row)
    } catch (error) {
      // The oldest requests are kept, as when too many wait.
      const room = isRefused(error) ? 0 : WAITING_MAX - waiting.length
      waiting.unshift(...rows.slice(0, room))
      drop(Math.max(0, rows.length - room))
      throw error
    }
  }
  const trim = async (signal?: AbortSignal): Promise<void> => {
    const groups = [...written.values()]
    written.clear()
    await repeat(signal, () => deleteBefore(relaxedPool, safeClock.now() - KEPT_MS))
    for (const group of groups) {
      await repeat(signal, () => deleteExcess(relaxedPool, group, kept))
    }
  }
  const loops: readonly Loop[] = [
    createLoop({
      name: 'request log',
      log,
      everyMs: WRITE_MS,
      turn: async () => void (await write()),
    }),
    createLoop({
      name: 'request log retention',
      log,
      everyMs: TRIM_MS,
      turn: async (signal) => void (await trim(signal)),
    }),
  ]
  return {
    /** Records a request. Cheap, and does not wait; the request is dropped if too many wait. */
    record,
    /** Deletes old requests, and excess requests of the groups that this instance has written. */
    trim,
    start(): void {
      for (const loop of loops) loop.start(WRITE_MS)
    },
    /** Writes the waiting requests, and stops. */
    async stop(): Promise<void> {
      await Promise.all(loops.map((loop) => loop.stop()))
      await write().catch((error: unknown) => {
        log.warn({ err: error, requests: waiting.length }, 'could not write the last API requests')
      })
    },
  }
}

/** A group of requests with its own bound, so that neither successes nor the other mode displace failures. */
type Group = Pick<Row, 'businessId' | 'live' | 'failed'>

function groupOf({ caller, failure }: AnsweredRequest): Group {
  return { businessId: caller.businessId, live: caller.live, failed: failure !== undefined }
}

const keyOf = ({ businessId, live, failed }: Group) => `${businessId} ${live} ${failed}`

type Row = Omit<InferEntity<typeof ApiRequestEntity>, 'receivedAt' | 'bytes'> & {
  readonly receivedMs: number
}

function toRow(request: AnsweredRequest, nowMs: number): Row {
  const { caller, failure, path, protocol, status, requestId, address } = request
  const durationMs = Math.round(request.durationMs)
  const receivedMs = nowMs - durationMs
  const faults = (failure?.faults ?? []).slice(0, FAULTS_MAX).map(({ field, message }) => ({
    field: textOf(field),
    message: textOf(message),
  }))
  return {
    ...groupOf(request),
    id: newId(PREFIX, receivedMs),
    keyId: caller.keyId,
    receivedMs,
    path,
    protocol,
    status,
    durationMs,
    requestId,
    address,
    code: failure?.code ?? '',
    error: textOf(failure?.error ?? ''),
    faults: faults.length === 0 ? '' : JSON.stringify(faults),
    body: failure?.body() ?? '',
  }
}

/** PostgreSQL stores no null character. */
const textOf = (text: string) => text.slice(0, TEXT_MAX).replaceAll('\0', '')

/** Whether the database refuses the rows themselves, so that writing them again would fail, too. */
function isRefused(error: unknown): boolean {
  return /^2[23]/.test((error as { code?: string }).code ?? '')
}

async function insertRequests(pool: Pool, rows: readonly Row[]): Promise<void> {
  const texts = (name: keyof Row) => textArray(rows.map((row) => row[name] as string))
  const bytesOf = ({ error, faults, body }: Row) =>
    Buffer.byteLength(error) + Buffer.byteLength(faults) + Buffer.byteLength(body)
  await pool.query({
    name: 'api-requests-insert',
    text: `insert into api_request (id, business_id, live, failed, key_id, received_at, path, protocol, status,
        duration_ms, request_id, address, code, error, faults, body, bytes)
      select * from unnest($1::text[], $2::text[], $3::bool[], $4::bool[], $5::text[], $6::timestamptz[], $7::text[],
        $8::text[], $9::int[], $10::int[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
        $16::text[], $17::int[])
      on conflict do nothing`,
    values: [
      texts('id'),
      texts('businessId'),
      booleanArray(rows.map(({ live }) => live)),
      booleanArray(rows.map(({ failed }) => failed)),
      texts('keyId'),
      timestampArray(rows.map(({ receivedMs }) => receivedMs)),
      texts('path'),
      texts('protocol'),
      integerArray(rows.map(({ status }) => status)),
      integerArray(rows.map(({ durationMs }) => durationMs)),
      texts('requestId'),
      texts('address'),
      texts('code'),
      texts('error'),
      texts('faults'),
      texts('body'),
      integerArray(rows.map(bytesOf)),
    ],
  })
}

/** Repeats a statement that deletes rows until it finds no more. */
async function repeat(signal: AbortSignal | undefined, run: () => Promise<number>): Promise<void> {
  for (let runs = 0; runs < DELETES_MAX && !signal?.aborted; runs++) {
    if ((await run()) < DELETED_ROWS) return
  }
}

/** Deletes requests before a time. Several instances may delete at the same time; they do not wait for each other. */
async function deleteBefore(pool: Pool, beforeMs: number): Promise<number> {
  const { rowCount } = await pool.query({
    name: 'api-requests-delete-old',
    text: `delete from api_request where id = any(array(
        select id from api_request where id < $1 order by id limit $2 for update skip locked))`,
    values: [firstIdAt(PREFIX, beforeMs), DELETED_ROWS],
  })
  return rowCount ?? 0
}

/** Deletes the oldest requests of a group that exceeds its bounds of rows or bytes. */
async function deleteExcess(
  pool: Pool,
  { businessId, live, failed }: Group,
  kept: { readonly rows: number; readonly bytes: number },
): Promise<number> {
  const { rowCount } = await pool.query({
    name: 'api-requests-delete-excess',
    text: `delete from api_request where id = any(array(
        select id from api_request where business_id = $1 and live = $2 and failed = $3 and id <= (
          select max(id) from (
            select id, row_number() over newest as rows, sum(bytes) over newest as bytes
            from api_request where business_id = $1 and live = $2 and failed = $3
            window newest as (order by id desc)
          ) counted where rows > $4 or bytes > $5
        ) order by id limit $6 for update skip locked))`,
    values: [businessId, live, failed, kept.rows, kept.bytes, DELETED_ROWS],
  })
  return rowCount ?? 0
}

/** The requests to list; an undefined or empty field does not filter. Times in epoch milliseconds. */
interface RequestFilter {
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
interface ListedRow extends Omit<LoggedRequest, 'id' | 'faults'> {
  readonly id: string | null
  readonly readUpTo: string | null
  readonly faults: string
}

/** The most requests of all businesses that a page scans. */
const SCAN_ROWS_MAX = 2_000

/** Returns one page, newest first. For one business, all its requests are read; for several, a bounded part. */
export async function listRequests(on: Queryable, filter: RequestFilter, page: Page) {
  const { values, bind } = bindValues()
  const range = rangeOf(filter, page, bind)
  const limit = bind(page.limit + 1)
  const [edge, source] =
    filter.businessId === ''
      ? scanAll(filter, range, bind)
      : [NO_EDGE, rangesOfBusiness(filter, range, limit, bind)]
  const { rows } = await on.query<ListedRow>(
    `with page as materialized (select * from (${source}) newest order by id desc limit ${limit})
      select (${edge}) as "readUpTo", page.id, business_id as "businessId", live, key_id as "keyId",
        round(date_part('epoch', received_at) * 1000) as "receivedAtMs", path, protocol, status,
        duration_ms as "durationMs",
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

/** SQL: the conditions of the page token and of the period. */
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

/** SQL: one range of the index for each mode and outcome. The bounds of each group bound the ranges. */
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

/** SQL: scans the newest requests of all businesses. @returns where the scan ends, and the matching rows */
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
