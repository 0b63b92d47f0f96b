import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import { type AttemptSteps, createAttemptRunner } from './attempt-runner.ts'
import {
  type Claim,
  claimDeliveries,
  listPendingEndpoints,
  type PendingEndpoint,
} from './claim-deliveries.ts'
import {
  type Allotment,
  type ConcurrencyLimits,
  createConcurrencyLimiter,
  type LimitedEndpoint,
} from './concurrency-limiter.ts'
import { failClaims, releaseClaims } from './end-claims.ts'
import { createRoundRobin } from './round-robin.ts'

interface WorkerOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly limits: ConcurrencyLimits
  readonly leaseMs: number
  readonly steps: AttemptSteps
  /** This process's share of an endpoint's concurrent requests. */
  readonly concurrencyOf?: ((endpointId: string, concurrency: number) => number) | undefined
}

/** Sends deliveries. */
export interface Worker extends Loop {
  /**
   * How many new deliveries may be created as claimed: for endpoints that were served recently, are
   * healthy and have no other deliveries due.
   */
  allot(): Allotment[]
  /** Sends deliveries created as claimed. While the worker stops, it releases them instead. */
  enqueue(claims: readonly Claim[], endpoints: readonly LimitedEndpoint[]): Promise<void>
}

/** The size of a page of endpoints, and the number of recently served endpoints remembered. */
const PAGE_MAX = 256

/** Attempts started and not recorded yet, of all endpoints; a turn that reaches it claims none. */
const ATTEMPTS_MAX = 1_000

/** A claim that waits longer than this fraction (one in …) of its lease is released. */
const LEASE_PER_WAIT = 4

const IDLE_MS = 1_000
const FULL_CHECK_MS = 200
const DRAIN_MS = 5_000
const DRAIN_CHECK_MS = 20
const RELEASE_MS = 2_000

/**
 * Claims due deliveries and attempts them. Endpoints are served round robin; the concurrency
 * limiter says how many deliveries each may get.
 */
export function createWorker(options: WorkerOptions): Worker {
  const { pool, clock, leaseMs } = options
  const limiter = createConcurrencyLimiter(options.limits, () => performance.now())
  const roundRobin = createRoundRobin(PAGE_MAX)
  let nextDueAtMs = Number.POSITIVE_INFINITY
  /** Kept, so that an endpoint with a constant backlog does not delay reading the others. */
  let listedAtMs = 0
  let full = false
  /** Endpoints with more due after the last turn; undefined if it did not read all endpoints. */
  let backlogged: readonly PendingEndpoint[] | undefined
  /** Whether the next turn claims more for these only, without reading the list again. */
  let refilling = false
  /** Endpoints served recently. */
  const recent = new LRUCache<string, LimitedEndpoint>({ max: PAGE_MAX })
  let woken = false
  let closing = false
  let stopped = false

  const turn = async (): Promise<number> => {
    attempts.markSlow()
    full = attempts.count() >= ATTEMPTS_MAX
    if (full) return IDLE_MS
    const nowMs = clock.now()
    const fresh = nowMs - listedAtMs < IDLE_MS && nowMs >= listedAtMs
    const known = refilling && fresh && !woken && nextDueAtMs > nowMs ? backlogged : undefined
    refilling = false
    woken = false
    if (nextDueAtMs <= nowMs) nextDueAtMs = Number.POSITIVE_INFINITY
    if (known === undefined) listedAtMs = nowMs
    const page = known ?? (await listPendingEndpoints(pool, roundRobin.after(), nowMs, PAGE_MAX))
    const due = roundRobin.order(known ?? ownShare(page, options).filter(({ due }) => due))
    const allotments = limiter.allot(due, attempts.waiting)
    const { claims, lost } =
      allotments.length > 0
        ? await claimDeliveries(pool, allotments, nowMs, leaseMs)
        : { claims: [], lost: [] }
    // If the worker stopped without waiting for the statement, its leases expire by themselves.
    if (stopped) return IDLE_MS
    attempts.enqueue(claims)
    if (lost.length > 0) await failClaims(pool, lost, nowMs, 'the event expired')
    const served = new Set(claims.map(({ endpointId }) => endpointId))
    remember(due.filter(({ id }) => served.has(id)))
    const whole = roundRobin.after() === '' && page.length < PAGE_MAX
    backlogged = whole ? backloggedEndpoints(due, allotments, claims) : undefined
    const any = claims.length + lost.length > 0
    if (roundRobin.advance(page, any ? allotments.at(-1)?.endpointId : undefined)) return 0
    // Some may have finished all their attempts during this turn.
    refilling = backlogged?.some(({ id }) => limiter.wantsMore(id, attempts.waiting(id))) ?? false
    if (refilling) return 0
    // Without capacity, it checks more often for attempts that have become slow.
    const checkMs = limiter.hasCapacity() ? IDLE_MS : FULL_CHECK_MS
    return Math.max(Math.min(nextDueAtMs - clock.now(), limiter.resumesInMs(), checkMs), 0)
  }
  const remember = (endpoints: readonly LimitedEndpoint[]): void => {
    for (const endpoint of endpoints) recent.set(endpoint.id, endpoint)
  }
  const drained = async (): Promise<void> => {
    await loop.stop()
    while (attempts.count() > 0 && !stopped) await sleep(DRAIN_CHECK_MS)
  }

  const loop = createLoop({ name: 'webhook worker', log: options.log, turn })
  const attempts = createAttemptRunner({
    clock,
    limiter,
    steps: options.steps,
    waitMaxMs: leaseMs / LEASE_PER_WAIT,
    onCapacity(endpointId) {
      if (endpointId !== undefined && backlogged && !backlogged.some(({ id }) => id === endpointId))
        return
      refilling = true
      loop.wake()
    },
    onRecorded(dueAtMs) {
      if (dueAtMs !== undefined) nextDueAtMs = Math.min(nextDueAtMs, dueAtMs)
      if (dueAtMs !== undefined || full) loop.wake()
    },
    onUnused: (claims) => void releaseOrLeave(claims, options),
  })
  return {
    start: loop.start,
    wake() {
      woken = true
      loop.wake()
    },
    allot() {
      if (closing || backlogged === undefined || attempts.count() >= ATTEMPTS_MAX) return []
      const behind = new Set(backlogged.map(({ id }) => id))
      // The least recently served come first.
      const keepUp = [...recent.rvalues()]
        .filter((endpoint) => endpoint !== undefined)
        .filter(({ id }) => !behind.has(id) && !limiter.isDegraded(id))
      return limiter.allot(keepUp, attempts.waiting)
    },
    async enqueue(claims, endpoints) {
      remember(ownShare(endpoints, options))
      if (closing) await releaseOrLeave(claims, options)
      else attempts.enqueue(claims)
    },
    async stop() {
      closing = true
      const unused = releaseOrLeave(attempts.close(), options)
      await withTimeout(drained(), DRAIN_MS)
      stopped = true
      const abandoned = releaseOrLeave([...attempts.close(), ...attempts.abandon()], options)
      await withTimeout(Promise.all([unused, abandoned]), RELEASE_MS)
    },
  }
}

/** The endpoints with this process's share of their concurrency, except those without any. */
function ownShare<E extends LimitedEndpoint>(
  endpoints: readonly E[],
  { concurrencyOf }: WorkerOptions,
): readonly E[] {
  if (concurrencyOf === undefined) return endpoints
  return endpoints
    .map((each) => ({ ...each, concurrency: concurrencyOf(each.id, each.concurrency) }))
    .filter(({ concurrency }) => concurrency > 0)
}

/** Releases claims; if that fails, their leases expire. */
async function releaseOrLeave(
  claims: readonly Claim[],
  { pool, log }: WorkerOptions,
): Promise<void> {
  if (claims.length === 0) return
  await releaseClaims(pool, claims).catch((error: unknown) => {
    log.warn(
      { err: error, deliveries: claims.length },
      'claims could not be released: their leases expire later',
    )
  })
}

/** The endpoints that may have more due: they had no capacity, or used their whole share. */
function backloggedEndpoints(
  due: readonly PendingEndpoint[],
  allotments: readonly Allotment[],
  claims: readonly Claim[],
): readonly PendingEndpoint[] {
  const claimed = new Map<string, number>()
  for (const { endpointId } of claims) claimed.set(endpointId, (claimed.get(endpointId) ?? 0) + 1)
  const done = new Set(
    allotments
      .filter(({ endpointId, share }) => (claimed.get(endpointId) ?? 0) < share)
      .map(({ endpointId }) => endpointId),
  )
  return due.filter(({ id }) => !done.has(id))
}
