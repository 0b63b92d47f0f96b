import type { Clock } from '../../core/clock.ts'
import type { Outcome } from '../sender/http-client.ts'
import type { Claim } from './claim-deliveries.ts'
import { type ConcurrencyLimiter, type Ending, SLOW_MS } from './concurrency-limiter.ts'

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

/** The attempts of this process: those that wait, and those under way. */
export interface AttemptRunner {
  /** Those begun and not written down yet. */
  count(): number
  /** How many claims of an endpoint wait. */
  waiting(endpointId: string): number
  /** Begins them as soon as `pacing` lets it. */
  offer(claims: readonly Claim[]): void
  /** Tells of endpoints that have kept an attempt waiting for long. */
  tellSlow(): void
  /** Nothing is begun any more. @returns the claims that were not */
  close(): Claim[]
  /** What comes of the attempts still under way is ignored from now on. @returns their claims */
  abandon(): Claim[]
}

interface AttemptsOptions {
  readonly clock: Clock
  readonly pacing: ConcurrencyLimiter
  readonly steps: AttemptSteps
  /** How old a claim may be when its attempt begins. A part of the lease. */
  readonly waitMaxMs: number
  /** Called when more may be claimed for an endpoint, or for any of those in trouble. */
  readonly onRoom: (endpointId: string | undefined) => void
  /** Called when an attempt is written down, with the time at which its delivery is due again. */
  readonly onWritten: (dueAtMs: number | undefined) => void
  /** Called with claims that this process does not get to in time. */
  readonly onUnused: (claims: readonly Claim[]) => void
}

interface Waiting {
  readonly claim: Claim
  readonly claimedTickMs: number
}

export function createAttemptRunner(options: AttemptsOptions): AttemptRunner {
  const { clock, pacing, steps, waitMaxMs, onRoom, onWritten, onUnused } = options
  const underWay = new Set<Attempt>()
  /** By endpoint, in the order of their turns; none is empty. */
  const lanes = new Map<string, Waiting[]>()
  let closed = false

  const run = async (attempt: Attempt): Promise<void> => {
    const { endpointId } = attempt.claim
    const outcome = await steps.send(attempt)
    const latencyMs = Math.round(performance.now() - attempt.startedTickMs)
    // The endpoint's room is free now; the delivery is done with when it is written down.
    const wasTroubled = pacing.isTroubled(endpointId)
    pacing.ended(endpointId, endingOf(outcome, latencyMs), latencyMs)
    if (!underWay.has(attempt)) return
    if (pacing.isTroubled(endpointId)) clear(endpointId)
    startAll()
    if (wasTroubled) onRoom(undefined)
    else if (pacing.wantsMore(endpointId, waiting(endpointId))) onRoom(endpointId)
    const dueAtMs = await steps.record(attempt, outcome, latencyMs)
    underWay.delete(attempt)
    onWritten(dueAtMs)
  }
  const waiting = (endpointId: string): number => lanes.get(endpointId)?.length ?? 0
  const clear = (endpointId: string): void => {
    const lane = lanes.get(endpointId)
    if (lane === undefined) return
    lanes.delete(endpointId)
    onUnused(lane.map(({ claim }) => claim))
  }
  const start = (claim: Claim, nowTickMs: number): void => {
    const attempt = { claim, startedAtMs: clock.now(), startedTickMs: nowTickMs }
    underWay.add(attempt)
    pacing.started(claim.endpointId)
    void run(attempt)
  }
  /** One of each endpoint in turn, as long as any may begin. */
  const startAll = (): void => {
    if (closed) return
    const nowTickMs = performance.now()
    // A lane that is set again comes up again, after all the others.
    for (const [endpointId, lane] of lanes) {
      if (!pacing.hasRoom()) return
      if (!pacing.mayStart(endpointId)) continue
      const next = lane.pop() as Waiting
      if (nowTickMs - next.claimedTickMs > waitMaxMs) {
        lane.push(next)
        clear(endpointId)
        continue
      }
      lanes.delete(endpointId)
      if (lane.length > 0) lanes.set(endpointId, lane)
      start(next.claim, nowTickMs)
    }
  }
  return {
    count: () => underWay.size,
    waiting,
    offer(claims) {
      const claimedTickMs = performance.now()
      const fresh = Map.groupBy(claims, (claim) => claim.endpointId)
      for (const [endpointId, own] of fresh) {
        const later = own.map((claim) => ({ claim, claimedTickMs })).reverse()
        // The last is the next to begin, as taking the first of an array moves all the others.
        lanes.set(endpointId, [...later, ...(lanes.get(endpointId) ?? [])])
      }
      startAll()
    },
    tellSlow() {
      const nowTickMs = performance.now()
      for (const { claim, startedTickMs } of underWay) {
        if (nowTickMs - startedTickMs <= pacing.slowAfterMs(claim.endpointId)) continue
        pacing.slow(claim.endpointId)
        clear(claim.endpointId)
      }
    },
    close() {
      closed = true
      const claims = [...lanes.values()].flat().map(({ claim }) => claim)
      lanes.clear()
      return claims
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
