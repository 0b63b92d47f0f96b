import type { InferEntity } from '@mikro-orm/core'
import type { Pool } from 'pg'
import { Counter } from 'prom-client'
import type { AnsweredRequest } from '../auth/caller.ts'
import { DAY_MS } from '../core/durations.ts'
import { firstIdAt, newId } from '../core/ids.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { booleanArray, integerArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { ApiRequestEntity } from './api-request.entity.ts'

/** The prefix of the ids of logged requests. */
export const PREFIX = 'arq'

const KEPT_MS = 7 * DAY_MS

/** The bounds for a business and mode: once for requests that succeeded, once for requests that failed. */
const KEPT = { rows: 10_000, bytes: 8 * 1_024 * 1_024 } as const

/** The most requests that wait for the next write, in total and of one business, mode and outcome. */
const WAITING_MAX = 2_000
const WAITING_OF_ONE_MAX = 200

/** How often what waits is written, and what is too old or too much is deleted. */
const WRITE_MS = 1_000
const TRIM_MS = 30_000

/** The rows that one statement deletes, and the most statements of one run. */
const DELETED_ROWS = 2_000
const DELETES_MAX = 50

/** How much is kept of each text, in characters. */
const TEXT_MAX = 500
const FAULTS_MAX = 20

export type RequestLog = ReturnType<typeof createRequestLog>

/** Keeps requests for the business that made them, and for operators. */
export function createRequestLog(
  { database: { relaxedPool }, clock, log, metrics }: Runtime,
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
      // The oldest are kept, as when too many wait.
      const room = isRefused(error) ? 0 : WAITING_MAX - waiting.length
      waiting.unshift(...rows.slice(0, room))
      drop(Math.max(0, rows.length - room))
      throw error
    }
  }
  const trim = async (signal?: AbortSignal): Promise<void> => {
    const groups = [...written.values()]
    written.clear()
    await repeat(signal, () => deleteBefore(relaxedPool, clock.now() - KEPT_MS))
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
    /** Takes a request. Cheap, waits for nothing, and drops it if too many wait. */
    record,
    /** Deletes what is too old, and of what this instance has written what is too much. */
    trim,
    start(): void {
      for (const loop of loops) loop.start(WRITE_MS)
    },
    /** Writes what waits, and stops. */
    async stop(): Promise<void> {
      await Promise.all(loops.map((loop) => loop.stop()))
      await write().catch((error: unknown) => {
        log.warn({ err: error, requests: waiting.length }, 'could not write the last API requests')
      })
    },
  }
}

/** Requests with a bound of their own, so that neither successes nor the other mode displace failures. */
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

/** Whether the database refuses the rows themselves, and would again. */
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

/** Several instances delete at the same time, and do not wait for one another. */
async function deleteBefore(pool: Pool, beforeMs: number): Promise<number> {
  const { rowCount } = await pool.query({
    name: 'api-requests-delete-old',
    text: `delete from api_request where id = any(array(
        select id from api_request where id < $1 order by id limit $2 for update skip locked))`,
    values: [firstIdAt(PREFIX, beforeMs), DELETED_ROWS],
  })
  return rowCount ?? 0
}

/** Deletes the oldest requests of a group that has too many, or too large ones. */
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
