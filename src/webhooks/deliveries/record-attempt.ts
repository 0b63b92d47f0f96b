import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { createLogSampler } from '../../core/log-sampler.ts'
import type { ObserveBatches } from '../../postgres/batch-metrics.ts'
import { createBatcher } from '../../postgres/batcher.ts'
import type { Health } from '../endpoints/endpoint.ts'
import type { Failure } from '../endpoints/watch-health.ts'
import type { EndedAttempt } from '../figures/count-attempts.ts'
import type { AttemptMetrics, AttemptOutcome } from '../metrics/attempt-metrics.ts'
import type { Outcome } from '../sender/http-client.ts'
import type { Attempt } from './attempt-runner.ts'
import { type Completion, completeAttempts } from './complete-attempts.ts'
import { parseRetryAfter, retryDelayMs } from './retry.ts'

interface RecorderOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly scheduleMs: readonly number[]
  readonly leaseMs: number
  /** Between 0 and 1. */
  readonly random: () => number
  /** Called with each recorded failed attempt. */
  readonly onFailure: (failure: Failure) => void
  /** Called with each recorded attempt. */
  readonly onEnded: (attempt: EndedAttempt) => void
  readonly metrics?: AttemptMetrics | undefined
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
export function createRecorder(options: RecorderOptions) {
  const { log, metrics, observeBatches } = options
  const complete = createBatcher<Completion, Health | undefined>({
    run: (completions) => completeAttempts(options.pool, completions),
    itemsMax: BATCH_MAX,
    batchesMax: 2,
    queueMax: QUEUE_MAX,
    lingerMs: GATHER_MS,
    observers: observeBatches && [observeBatches('webhook_attempts')],
  })
  // An endpoint that fails may have thousands of deliveries.
  const logFailed = createLogSampler({
    ...{ log, level: 'info', text: 'webhook attempt failed', by: 'endpoint' },
    ...{ linesMax: 5, totalMax: 50, windowMs: 1_000 },
  })
  /** @returns when the delivery is due again, in milliseconds since the Unix epoch */
  return async (
    attempt: Attempt,
    outcome: Outcome,
    latencyMs: number,
  ): Promise<number | undefined> => {
    const { claim } = attempt
    metrics?.attempted(claim.entry.live, outcomeOf(outcome), latencyMs, outcome.traceId)
    const completion = completionOf(attempt, outcome, latencyMs, options)
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
          metrics?.delivered(live, endedAtMs - occurredAtMs, outcome.traceId)
        else if (state === 'FAILED') metrics?.failed(live)
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
  attempt: Attempt,
  outcome: Outcome,
  latencyMs: number,
  { clock, scheduleMs, random }: RecorderOptions,
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
  // The next event of an ordered endpoint waits for this one: it has no last attempt.
  const attempts = claim.ordered
    ? Math.min(claim.attempts + 1, scheduleMs.length)
    : claim.attempts + 1
  const delayMs = retryDelayMs(scheduleMs, attempts, retryAfterMs, random())
  if (delayMs === undefined) return { ...base, state: 'FAILED', atMs: nowMs }
  return { ...base, state: 'PENDING', atMs: nowMs + delayMs }
}
