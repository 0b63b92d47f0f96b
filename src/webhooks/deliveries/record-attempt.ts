import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import { Counter, type Registry } from 'prom-client'
import { createLogSampler } from '../../core/log-sampler.ts'
import { createTimer } from '../../core/tracing.ts'
import { createBatcher, type ObserveBatches } from '../../postgres/batcher.ts'
import { integerArray, textArray, timestampArray } from '../../postgres/binary-arrays.ts'
import { DEADLINES } from '../../postgres/client.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { EndedAttempt } from '../count-attempts.ts'
import type { Health } from '../endpoints/endpoint.ts'
import type { Failure } from '../endpoints/watch-health.ts'
import type { Outcome } from '../sender/http-client.ts'
import type { Attempt } from './attempt-runner.ts'
import { type DeliveryKey, type DeliveryState, positionRange } from './delivery.ts'
import { parseRetryAfter, retryDelayMs } from './retry.ts'

interface RecorderOptions {
  readonly scheduleMs: readonly number[]
  readonly leaseMs: number
  /** Between 0 and 1. */
  readonly random: () => number
  /** Called with each recorded failed attempt. */
  readonly onFailure: (failure: Failure) => void
  /** Called with each recorded attempt. */
  readonly onEnded: (attempt: EndedAttempt) => void
  readonly observeBatches?: ObserveBatches | undefined
}

const BATCH_MAX = 256

const QUEUE_MAX = 2_000

const GATHER_MS = 10

const RETRY_MIN_MS = 100

const RETRY_MAX_MS = 2_000

/**
 * Records the outcomes of attempts, many in one statement. While the database is unavailable it
 * retries until the lease ends; then another instance may claim and attempt the delivery again.
 */
export function createRecorder(runtime: Runtime, options: RecorderOptions) {
  const { log } = runtime
  const { observeBatches } = options
  const metrics = createAttemptMetrics(runtime.metrics)
  const complete = createBatcher<Completion, Health | undefined>({
    run: (completions) => completeAttempts(runtime.database.relaxedPool, completions),
    itemsMax: BATCH_MAX,
    batchesMax: 2,
    queueMax: QUEUE_MAX,
    lingerMs: GATHER_MS,
    observers: observeBatches && [observeBatches('webhook_attempts')],
  })
  // An endpoint that fails may have thousands of deliveries.
  const logFailed = createLogSampler({
    log,
    level: 'info',
    text: 'webhook attempt failed',
    by: 'endpoint',
    linesMax: 5,
    totalMax: 50,
    windowMs: 1_000,
  })
  /** @returns when the delivery is due again, in milliseconds since the Unix epoch */
  return async (
    attempt: Attempt,
    outcome: Outcome,
    latencyMs: number,
  ): Promise<number | undefined> => {
    const { claim } = attempt
    metrics.attempted(claim.entry.live, outcomeOf(outcome), latencyMs, outcome.traceId)
    const completion = completionOf(runtime, attempt, outcome, latencyMs, options)
    const fields = {
      delivery: claim.id,
      endpoint: claim.endpointId,
      attempt: claim.attempts + 1,
      latencyMs,
      ...(outcome.status !== undefined && { status: outcome.status }),
      ...(outcome.error !== '' && { error: outcome.error }),
    }
    if (completion.state === 'FAILED') log.warn(fields, 'webhook delivery failed: no attempts left')
    else if (outcome.error === '') log.debug(fields, 'webhook delivered')
    else logFailed(claim.endpointId, { ...fields, next_attempt: new Date(completion.atMs) })
    const untilMs = attempt.startedTickMs + options.leaseMs
    for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
      try {
        const health = await complete(completion)
        if (health === undefined) {
          log.debug(fields, 'webhook attempt not recorded: its claim had ended')
          return undefined
        }
        const { endpointId, url, entry } = claim
        const { businessId, live, occurredAtMs } = entry
        const endedAtMs = attempt.startedAtMs + latencyMs
        const { state } = completion
        options.onEnded({ businessId, live, state, endedAtMs, occurredAtMs })
        if (state === 'DELIVERED')
          metrics.delivered(live, endedAtMs - occurredAtMs, outcome.traceId)
        else if (state === 'FAILED') metrics.failed(live)
        if (outcome.error !== '') {
          options.onFailure({ endpointId, url, status: outcome.status, health })
        }
        return state === 'PENDING' ? completion.atMs : undefined
      } catch (error) {
        if (performance.now() + waitMs < untilMs) {
          await sleep(waitMs, undefined, { ref: false })
          continue
        }
        log.warn({ ...fields, err: error }, 'webhook attempt could not be recorded')
        return undefined
      }
    }
  }
}

function outcomeOf({ error, status }: Outcome): AttemptOutcome {
  if (error === '') return 'acknowledged'
  return status === undefined ? 'no_response' : 'rejected'
}

function completionOf(
  { clock }: Runtime,
  attempt: Attempt,
  outcome: Outcome,
  latencyMs: number,
  { scheduleMs, random }: RecorderOptions,
): Completion {
  const { claim, startedAtMs } = attempt
  const { status, responseBody, error } = outcome
  const nowMs = clock.now()
  const base = {
    id: claim.id,
    position: claim.position,
    fence: claim.fence,
    startedAtMs,
    latencyMs,
    status,
    responseBody,
    error,
  }
  if (error === '') return { ...base, state: 'DELIVERED', atMs: nowMs }
  const retryAfterMs = parseRetryAfter(outcome.retryAfter, nowMs)
  // The next event of an ordered endpoint waits for this one, so its attempts never end.
  const attempts = claim.ordered
    ? Math.min(claim.attempts + 1, scheduleMs.length)
    : claim.attempts + 1
  const delayMs = retryDelayMs(scheduleMs, attempts, retryAfterMs, random())
  if (delayMs === undefined) return { ...base, state: 'FAILED', atMs: nowMs }
  return { ...base, state: 'PENDING', atMs: nowMs + delayMs }
}

/** A finished attempt, and the resulting state of its delivery. */
export interface Completion extends DeliveryKey {
  readonly fence: number
  readonly state: DeliveryState
  /** When the delivery is due again if it is pending, else when it was completed. */
  readonly atMs: number
  readonly startedAtMs: number
  readonly latencyMs: number
  readonly status: number | undefined
  readonly responseBody: string
  readonly error: string
}

/** Whether an attempt was recorded; for a failed attempt, also the health of its endpoint. */
interface Row extends Health {
  readonly id: string
  readonly recorded: boolean
}

const HEALTHY: Health = { failingSinceMs: null, warnedAtMs: null }

/**
 * Records attempts whose claim is still valid. It also raises the fence, so that the statement can
 * be repeated safely when it is unknown whether it took effect.
 *
 * The first failure after a success marks an endpoint as failing, and a success ends that.
 *
 * @returns for each failed attempt, the health of its endpoint before the attempt; for each successful attempt, a healthy
 *   endpoint; undefined if the claim had ended
 */
export async function completeAttempts(
  pool: Pool,
  completions: readonly Completion[],
): Promise<(Health | undefined)[]> {
  // `any(array(…))` keeps the planner on the primary key, and so does leaving out the state, which
  // is PENDING while the claim is valid.
  const result = await pool.query<Row>({
    name: 'webhook-complete',
    query_timeout: DEADLINES.hot,
    text: `with input as (
        select * from unnest($1::text[], $2::int4[], $3::text[], $4::timestamptz[],
          $5::timestamptz[], $6::int4[], $7::int4[], $8::text[], $9::text[])
          as i(id, claim, state, at, started_at, latency_ms, status, response_body, error)
      ), recorded as (
        update webhook_delivery d set state = i.state, attempts = d.attempts + 1,
          claims = d.claims + 1, leased_until = null,
          due_at = case when i.state = 'PENDING' then i.at else d.due_at end,
          completed_at = case when i.state <> 'PENDING' then i.at end,
          failure = case when i.state = 'FAILED' then 'the last attempt failed' end,
          started_at = i.started_at, latency_ms = i.latency_ms, status = nullif(i.status, 0),
          response_body = i.response_body, error = i.error
        from input i
        where d.id = any(array(select id from input)) and d.position between $10 and $11
          and d.id = i.id and d.claims = i.claim
        returning d.id, d.attempts, d.endpoint_id, i.started_at, i.error
      ), moved as (
        -- The previous attempt, which this statement's snapshot still shows: only the claimant
        -- writes to a delivery while its claim is valid.
        insert into webhook_attempt
          (delivery_id, number, position, started_at, latency_ms, status, response_body, error)
        select id, attempts, position, started_at, latency_ms, status, response_body, error
        from webhook_delivery
        where id = any(array(select id from recorded where attempts > 1))
          and position between $10 and $11 and started_at is not null
      ), outcome as (
        select endpoint_id, bool_or(error = '') as success, min(started_at) as started_at
        from recorded group by endpoint_id
      ), changed as (
        -- Always in the same order, so that two batches cannot deadlock.
        select e.id, o.success, o.started_at
        from outcome o join webhook_endpoint e on e.id = o.endpoint_id
        where o.success = (e.failing_since is not null) order by e.id for no key update of e
      ), updated as (
        update webhook_endpoint e set warned_at = null,
          failing_since = case when not c.success then c.started_at end
        from changed c where e.id = c.id
      )
      -- Successful attempts are left out.
      select i.id, r.id is not null as recorded,
        (extract(epoch from e.failing_since) * 1000)::float8 as "failingSinceMs",
        (extract(epoch from e.warned_at) * 1000)::float8 as "warnedAtMs"
      from input i left join recorded r on r.id = i.id
      left join webhook_endpoint e on e.id = r.endpoint_id
      where r.id is null or i.error <> ''`,
    values: toArrays(completions),
  })
  const reported = new Map(
    result.rows.map(({ id, recorded, ...health }) => [id, recorded ? health : undefined]),
  )
  return completions.map(({ id }) => (reported.has(id) ? reported.get(id) : HEALTHY))
}

function toArrays(completions: readonly Completion[]): (Buffer | bigint)[] {
  return [
    textArray(completions.map((completion) => completion.id)),
    integerArray(completions.map((completion) => completion.fence)),
    textArray(completions.map((completion) => completion.state)),
    timestampArray(completions.map((completion) => completion.atMs)),
    timestampArray(completions.map((completion) => completion.startedAtMs)),
    integerArray(completions.map((completion) => completion.latencyMs)),
    integerArray(completions.map((completion) => completion.status ?? 0)),
    textArray(completions.map((completion) => completion.responseBody)),
    textArray(completions.map((completion) => completion.error)),
    ...positionRange(completions),
  ]
}

/** How an attempt ended. */
type AttemptOutcome = 'acknowledged' | 'rejected' | 'no_response'

const OUTCOMES: readonly AttemptOutcome[] = ['acknowledged', 'rejected', 'no_response']
const MODES = ['live', 'test'] as const

/** A receiver nearby responds in milliseconds; after 15 s the attempt ends. */
const ATTEMPT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]

/** Tens of milliseconds at the first attempt; minutes to days when retries were needed. */
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 28_800, 86_400]

function byMode(configuration: Parameters<typeof createTimer<'mode'>>[0], register: Registry) {
  const timer = createTimer(configuration, register)
  return { live: timer.of({ mode: 'live' }), test: timer.of({ mode: 'test' }) }
}

const modeOf = (live: boolean) => (live ? 'live' : 'test')

/** Measures attempts and deliveries. */
function createAttemptMetrics(register: Registry) {
  const registers = [register]
  const attempts = new Counter({
    name: 'inflow_webhook_attempts_total',
    help: 'Webhook requests by outcome; rejected: a response other than 2xx, no_response: a network fault or a time-out.',
    labelNames: ['outcome', 'mode'],
    registers,
  })
  const duration = byMode(
    {
      name: 'inflow_webhook_attempt_duration_seconds',
      help: 'Duration of a webhook request, to the end of its response.',
      labelNames: ['mode'],
      buckets: ATTEMPT_BUCKETS,
    },
    register,
  )
  const lag = byMode(
    {
      name: 'inflow_webhook_delivery_lag_seconds',
      help: 'Time from an event to its acknowledgement by the receiver, with all retries.',
      labelNames: ['mode'],
      buckets: LAG_BUCKETS,
    },
    register,
  )
  const failures = new Counter({
    name: 'inflow_webhook_deliveries_failed_total',
    help: 'Webhook deliveries whose last attempt failed.',
    labelNames: ['mode'],
    registers,
  })
  // The series exist from the start, because Prometheus sees no increase from absent to 1.
  for (const mode of MODES) {
    for (const outcome of OUTCOMES) attempts.inc({ outcome, mode }, 0)
    failures.inc({ mode }, 0)
  }
  return {
    /** @param latencyMs to the end of the response @param traceId the recorded trace that contains the attempt */
    attempted(live: boolean, outcome: AttemptOutcome, latencyMs: number, traceId?: string): void {
      attempts.inc({ outcome, mode: modeOf(live) })
      duration[modeOf(live)](latencyMs / 1_000, traceId)
    },
    /** @param lagMs from the event to its acknowledgement */
    delivered(live: boolean, lagMs: number, traceId?: string): void {
      lag[modeOf(live)](Math.max(0, lagMs) / 1_000, traceId)
    },
    failed(live: boolean): void {
      failures.inc({ mode: modeOf(live) })
    },
  }
}
