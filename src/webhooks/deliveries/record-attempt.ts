import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { createBatcher } from '../../postgres/batcher.ts'
import type { Health } from '../endpoints/endpoint.ts'
import type { Failure } from '../endpoints/watch-health.ts'
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
  /** Told of each failed attempt that was written down. */
  readonly onFailure: (failure: Failure) => void
}

const BATCH_MAX = 256
const QUEUE_MAX = 2_000
const GATHER_MS = 10
const REPEAT_MIN_MS = 100
const REPEAT_MAX_MS = 5_000

/**
 * Writes down what came of attempts, many in one statement. While the database is away it repeats
 * until the lease ends; from then on the delivery is someone else's, and is attempted again.
 */
export function createRecorder(options: RecorderOptions) {
  const { log } = options
  const complete = createBatcher<Completion, Health | undefined>({
    run: (completions) => completeAttempts(options.pool, completions),
    itemsMax: BATCH_MAX,
    batchesMax: 2,
    queueMax: QUEUE_MAX,
    lingerMs: GATHER_MS,
  })
  /** @returns when the delivery is due again, in milliseconds since the Unix epoch */
  return async (
    attempt: Attempt,
    outcome: Outcome,
    latencyMs: number,
  ): Promise<number | undefined> => {
    const { claim } = attempt
    const completion = completionOf(attempt, outcome, latencyMs, options)
    const about = {
      delivery: claim.id,
      endpoint: claim.endpointId,
      attempt: claim.attempts + 1,
      latencyMs,
      error: outcome.error,
    }
    if (completion.state === 'FAILED') log.warn(about, 'webhook given up after its last attempt')
    else log.debug(about, 'webhook attempted')
    const untilMs = attempt.startedTickMs + options.leaseMs
    for (let waitMs = REPEAT_MIN_MS; ; waitMs = Math.min(waitMs * 2, REPEAT_MAX_MS)) {
      try {
        const health = await complete(completion)
        if (health === undefined) {
          log.debug(about, 'webhook attempt came after its claim had ended')
          return undefined
        }
        const { endpointId, url } = claim
        if (outcome.error !== '') {
          options.onFailure({ endpointId, url, status: outcome.status, health })
        }
        return completion.state === 'PENDING' ? completion.atMs : undefined
      } catch (error) {
        if (performance.now() + waitMs < untilMs) {
          await sleep(waitMs, undefined, { ref: false })
          continue
        }
        log.warn({ ...about, err: error }, 'webhook attempt could not be written down')
        return undefined
      }
    }
  }
}

function completionOf(
  attempt: Attempt,
  outcome: Outcome,
  latencyMs: number,
  { clock, scheduleMs, random }: RecorderOptions,
): Completion {
  const { claim, startedAtMs } = attempt
  const { status, answer, error } = outcome
  const nowMs = clock.now()
  const base = { id: claim.id, fence: claim.fence, startedAtMs, latencyMs, status, answer, error }
  if (error === '') return { ...base, state: 'DELIVERED', atMs: nowMs }
  const retryAfterMs = parseRetryAfter(outcome.retryAfter, nowMs)
  const delayMs = retryDelayMs(scheduleMs, claim.attempts + 1, retryAfterMs, random())
  if (delayMs === undefined) return { ...base, state: 'FAILED', atMs: nowMs }
  return { ...base, state: 'PENDING', atMs: nowMs + delayMs }
}
