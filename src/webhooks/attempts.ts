import type { Clock } from '../clock.ts'
import type { Claim } from './claim-deliveries.ts'
import type { Ending, Pacing } from './pacing.ts'
import type { Outcome } from './post.ts'

/** One attempt under way. */
export interface Attempt {
  readonly claim: Claim
  readonly startedAtMs: number
  /** On the monotonic clock. */
  readonly startedTickMs: number
}

/** What an attempt is made of. */
export interface AttemptSteps {
  /** Makes the request. It answers for every fault. */
  send(attempt: Attempt): Promise<Outcome>
  /**
   * Writes down what came of it, or gives up when the lease ends. It does not throw.
   *
   * @returns when the delivery is due again, in milliseconds since the Unix epoch
   */
  record(attempt: Attempt, outcome: Outcome, latencyMs: number): Promise<number | undefined>
}

/** The attempts under way in this process. */
export interface Attempts {
  /** Those not written down yet. */
  count(): number
  start(claim: Claim): void
  /** Tells of endpoints that have kept an attempt waiting for long. */
  tellSlow(): void
  /** What comes of the attempts still under way is ignored from now on. @returns their claims */
  abandon(): Claim[]
}

interface AttemptsOptions {
  readonly clock: Clock
  readonly pacing: Pacing
  readonly steps: AttemptSteps
  /** Called when there is room again, and when a delivery has a new time at which it is due. */
  readonly onChange: (dueAtMs: number | undefined) => void
}

/** An attempt that takes this long counts its endpoint among those in trouble. */
const SLOW_MS = 2_000

export function createAttempts({ clock, pacing, steps, onChange }: AttemptsOptions): Attempts {
  const underWay = new Set<Attempt>()

  const run = async (attempt: Attempt): Promise<void> => {
    const { endpointId } = attempt.claim
    const outcome = await steps.send(attempt)
    const latencyMs = Math.round(performance.now() - attempt.startedTickMs)
    // The endpoint's room is free now; the delivery is done with when it is written down.
    pacing.ended(endpointId, endingOf(outcome, latencyMs))
    if (!underWay.has(attempt)) return
    onChange(undefined)
    const dueAtMs = await steps.record(attempt, outcome, latencyMs)
    underWay.delete(attempt)
    onChange(dueAtMs)
  }
  return {
    count: () => underWay.size,
    start(claim) {
      const attempt = { claim, startedAtMs: clock.now(), startedTickMs: performance.now() }
      underWay.add(attempt)
      pacing.started(claim.endpointId)
      void run(attempt)
    },
    tellSlow() {
      const slowSinceMs = performance.now() - SLOW_MS
      for (const { claim, startedTickMs } of underWay) {
        if (startedTickMs < slowSinceMs) pacing.slow(claim.endpointId)
      }
    },
    abandon() {
      const claims = [...underWay].map((attempt) => attempt.claim)
      underWay.clear()
      return claims
    },
  }
}

function endingOf({ error, status }: Outcome, latencyMs: number): Ending {
  if (error !== '') return status === undefined ? 'unanswered' : 'refused'
  return latencyMs < SLOW_MS ? 'well' : 'slow'
}
