import type { Clock } from '../../core/clock.ts'
import type { Outcome } from '../sender/http-client.ts'
import type { Claim } from './claim-deliveries.ts'
import { type AttemptResult, type ConcurrencyLimiter, SLOW_MS } from './concurrency-limiter.ts'

/** One attempt in progress. */
export interface Attempt {
  readonly claim: Claim
  readonly startedAtMs: number
  /** On the monotonic clock. */
  readonly startedTickMs: number
}

/** The steps of an attempt. */
export interface AttemptSteps {
  /** Makes the request. Faults are returned in the outcome: it does not throw. */
  send(attempt: Attempt): Promise<Outcome>
  /**
   * Records the outcome; stops trying when the lease ends. It does not throw.
   *
   * @returns when the delivery is due again, in milliseconds since the Unix epoch
   */
  record(attempt: Attempt, outcome: Outcome, latencyMs: number): Promise<number | undefined>
}

interface AttemptRunnerOptions {
  readonly clock: Clock
  readonly limiter: ConcurrencyLimiter
  readonly steps: AttemptSteps
  /** The maximum age of a claim when its attempt starts. Below the lease. */
  readonly waitMaxMs: number
  /** Called when more may be claimed for an endpoint; undefined: for any degraded endpoint. */
  readonly onCapacity: (endpointId: string | undefined) => void
  /** Called when an attempt is recorded, with the time at which its delivery is due again. */
  readonly onRecorded: (dueAtMs: number | undefined, claim: Claim) => void
  /** Called with claims that this process cannot attempt in time. */
  readonly onUnused: (claims: readonly Claim[]) => void
}

interface Waiting {
  readonly claim: Claim
  readonly claimedTickMs: number
}

/** The attempts of this process that wait or are in progress. */
export class AttemptRunner {
  readonly #options: AttemptRunnerOptions
  readonly #inProgress = new Set<Attempt>()
  readonly #queues = createQueues()
  #closed = false

  constructor(options: AttemptRunnerOptions) {
    this.#options = options
  }

  /** How many attempts have started and are not recorded yet. */
  count(): number {
    return this.#inProgress.size
  }

  /** How many claims wait for an endpoint. */
  waiting(endpointId: string): number {
    return this.#queues.size(endpointId)
  }

  /** Starts attempts as soon as the concurrency limiter allows. */
  enqueue(claims: readonly Claim[]): void {
    this.#queues.add(claims, performance.now())
    this.startWaiting()
  }

  /** Marks endpoints as slow whose attempts have been in progress for long. */
  markSlow(): void {
    const { limiter } = this.#options
    const nowTickMs = performance.now()
    for (const { claim, startedTickMs } of this.#inProgress) {
      if (nowTickMs - startedTickMs <= limiter.slowAfterMs(claim.endpointId)) continue
      limiter.markSlow(claim.endpointId)
      this.#clearQueue(claim.endpointId)
    }
  }

  /** Starts no more attempts. @returns the claims that have not started */
  close(): Claim[] {
    this.#closed = true
    return this.#queues.clearAll()
  }

  /** Ignores the outcomes of the attempts still in progress. @returns their claims */
  abandon(): Claim[] {
    const claims = [...this.#inProgress].map((attempt) => attempt.claim)
    this.#inProgress.clear()
    return claims
  }

  async #run(attempt: Attempt): Promise<void> {
    const { limiter, steps, onCapacity, onRecorded } = this.#options
    const { endpointId } = attempt.claim
    const outcome = await steps.send(attempt)
    const latencyMs = Math.round(performance.now() - attempt.startedTickMs)
    // The capacity of the endpoint is free now; the delivery is finished once the outcome is recorded.
    const wasDegraded = limiter.isDegraded(endpointId)
    limiter.finished(endpointId, resultOf(outcome, latencyMs), latencyMs)
    if (!this.#inProgress.has(attempt)) return
    if (limiter.isDegraded(endpointId)) this.#clearQueue(endpointId)
    this.startWaiting()
    if (wasDegraded) onCapacity(undefined)
    else if (limiter.wantsMore(endpointId, this.waiting(endpointId))) onCapacity(endpointId)
    const dueAtMs = await steps.record(attempt, outcome, latencyMs)
    this.#inProgress.delete(attempt)
    onRecorded(dueAtMs, attempt.claim)
  }

  #clearQueue(endpointId: string): void {
    const claims = this.#queues.clear(endpointId)
    if (claims.length > 0) this.#options.onUnused(claims)
  }

  #start(claim: Claim, nowTickMs: number): void {
    const { clock, limiter } = this.#options
    const attempt = { claim, startedAtMs: clock.now(), startedTickMs: nowTickMs }
    this.#inProgress.add(attempt)
    limiter.started(claim.endpointId)
    void this.#run(attempt)
  }

  /** Starts one attempt of each endpoint in turn, as long as any may start. A rate limit may have held some back. */
  startWaiting(): void {
    if (this.#closed) return
    const { limiter, waitMaxMs, onUnused } = this.#options
    const nowTickMs = performance.now()
    for (const endpointId of this.#queues.endpointIds()) {
      if (!limiter.hasCapacity()) return
      if (!limiter.mayStart(endpointId)) continue
      const { claim, claimedTickMs } = this.#queues.take(endpointId)
      if (nowTickMs - claimedTickMs > waitMaxMs)
        onUnused([claim, ...this.#queues.clear(endpointId)])
      else this.#start(claim, nowTickMs)
    }
  }
}

/** The claims that wait. */
function createQueues() {
  /** By endpoint, in round-robin order; no queue is empty. The next claim is the last. */
  const queues = new Map<string, Waiting[]>()
  const clear = (endpointId: string): Claim[] => {
    const queue = queues.get(endpointId) ?? []
    queues.delete(endpointId)
    return queue.map(({ claim }) => claim)
  }
  return {
    size: (endpointId: string): number => queues.get(endpointId)?.length ?? 0,
    /** An endpoint that `take` leaves with claims comes up again after all the others. */
    endpointIds: () => queues.keys(),
    add(claims: readonly Claim[], claimedTickMs: number): void {
      for (const [endpointId, own] of Map.groupBy(claims, (claim) => claim.endpointId)) {
        const later = own.map((claim) => ({ claim, claimedTickMs })).reverse()
        // Stored in reverse, because popping the last claim is cheap, while shifting the first moves all others.
        queues.set(endpointId, [...later, ...(queues.get(endpointId) ?? [])])
      }
    },
    take(endpointId: string): Waiting {
      const queue = queues.get(endpointId) as Waiting[]
      const next = queue.pop() as Waiting
      queues.delete(endpointId)
      if (queue.length > 0) queues.set(endpointId, queue)
      return next
    },
    clear,
    clearAll: (): Claim[] => [...queues.keys()].flatMap(clear),
  }
}

function resultOf({ error, status }: Outcome, latencyMs: number): AttemptResult {
  if (error !== '') return status === undefined ? 'no_response' : 'rejected'
  return latencyMs < SLOW_MS ? 'acknowledged' : 'slow'
}
