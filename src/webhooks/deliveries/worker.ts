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
  type PendingEndpoint,
  walkPendingEndpoints,
} from './claim-deliveries.ts'
import { giveBack, giveUp } from './complete-attempts.ts'
import {
  type Allotment,
  type ConcurrencyLimits,
  createConcurrencyLimiter,
  type LimitedEndpoint,
} from './concurrency-limiter.ts'
import { createRoundRobin } from './round-robin.ts'

interface WorkerOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly limits: ConcurrencyLimits
  readonly leaseMs: number
  readonly steps: AttemptSteps
  /** How many of the requests that an endpoint may get at once are this process's to make. */
  readonly concurrencyOf?: ((endpointId: string, concurrency: number) => number) | undefined
}

/** Sends deliveries. */
export interface Worker extends Loop {
  /**
   * How much may be claimed as it is made: for endpoints that something was claimed for lately, that
   * answer well, and that nothing else is due for.
   */
  allot(): Allotment[]
  /** Takes what was claimed so, with the endpoints that it is for. Once it ends, gives it back. */
  offer(claims: readonly Claim[], endpoints: readonly LimitedEndpoint[]): Promise<void>
}

/** How many endpoints one turn looks at, and how many are known as those claimed for lately. */
const WALK_MAX = 256

/** AttemptRunner begun and not written down yet, of all endpoints; no turn claims beyond it. */
const ATTEMPTS_MAX = 1_000

/** What waits longer than this part of its lease is left to others. */
const WAIT_PART_OF_LEASE = 4

const IDLE_MS = 1_000
const FULL_LOOK_MS = 200
const DRAIN_MS = 5_000
const DRAIN_LOOK_MS = 20
const GIVE_BACK_MS = 2_000

/**
 * Claims due deliveries and attempts them. Endpoints take turns, and `pacing` says how much each
 * may take.
 */
export function createWorker(options: WorkerOptions): Worker {
  const { pool, clock, log, leaseMs, concurrencyOf } = options
  /** With what this process may have of each; those that it may have nothing of are left out. */
  const ownPart = <E extends LimitedEndpoint>(endpoints: readonly E[]): readonly E[] =>
    concurrencyOf === undefined
      ? endpoints
      : endpoints
          .map((each) => ({ ...each, concurrency: concurrencyOf(each.id, each.concurrency) }))
          .filter(({ concurrency }) => concurrency > 0)
  const pacing = createConcurrencyLimiter(options.limits, () => performance.now())
  const rotation = createRoundRobin(WALK_MAX)
  let nextDueAtMs = Number.POSITIVE_INFINITY
  /** An endpoint that is always behind must not keep the others from being looked for. */
  let walkedAtMs = 0
  let full = false
  /** Endpoints that more was due for at the last turn; undefined: it did not look at all of them. */
  let left: readonly PendingEndpoint[] | undefined
  /** Whether the next turn is to claim more for those, without looking for others. */
  let refilling = false
  /** Those claimed for lately. */
  const recent = new LRUCache<string, LimitedEndpoint>({ max: WALK_MAX })
  let woken = false
  let closing = false
  let stopped = false

  const turn = async (): Promise<number> => {
    attempts.tellSlow()
    full = attempts.count() >= ATTEMPTS_MAX
    if (full) return IDLE_MS
    const nowMs = clock.now()
    const fresh = nowMs - walkedAtMs < IDLE_MS && nowMs >= walkedAtMs
    const known = refilling && fresh && !woken && nextDueAtMs > nowMs ? left : undefined
    refilling = false
    woken = false
    if (nextDueAtMs <= nowMs) nextDueAtMs = Number.POSITIVE_INFINITY
    if (known === undefined) walkedAtMs = nowMs
    const walked = known ?? (await walkPendingEndpoints(pool, rotation.after(), nowMs, WALK_MAX))
    const due = rotation.inTurn(known ?? ownPart(walked.filter(({ due }) => due)))
    const allotments = pacing.allot(due, attempts.waiting)
    const { claims, lost } =
      allotments.length > 0
        ? await claimDeliveries(pool, allotments, nowMs, leaseMs)
        : { claims: [], lost: [] }
    // After a stop that did not wait for the statement, its leases run out by themselves.
    if (stopped) return IDLE_MS
    attempts.offer(claims)
    if (lost.length > 0) await giveUp(pool, lost, nowMs, 'the event was deleted for its age')
    const served = new Set(claims.map(({ endpointId }) => endpointId))
    remember(due.filter(({ id }) => served.has(id)))
    const whole = rotation.after() === '' && walked.length < WALK_MAX
    left = whole ? endpointsLeft(due, allotments, claims) : undefined
    const any = claims.length + lost.length > 0
    if (rotation.ended(walked, any ? allotments.at(-1)?.endpointId : undefined)) return 0
    // Some may have answered all that they had while this turn was under way.
    refilling = left?.some(({ id }) => pacing.wantsMore(id, attempts.waiting(id))) ?? false
    if (refilling) return 0
    // While there is no room, it looks more often for attempts that have become slow.
    const lookMs = pacing.hasRoom() ? IDLE_MS : FULL_LOOK_MS
    return Math.max(Math.min(nextDueAtMs - clock.now(), pacing.resumesInMs(), lookMs), 0)
  }
  const remember = (endpoints: readonly LimitedEndpoint[]): void => {
    for (const endpoint of endpoints) recent.set(endpoint.id, endpoint)
  }
  const drained = async (): Promise<void> => {
    await loop.stop()
    while (attempts.count() > 0 && !stopped) await sleep(DRAIN_LOOK_MS)
  }

  const loop = createLoop({ name: 'webhook worker', log, turn })
  const attempts = createAttemptRunner({
    clock,
    pacing,
    steps: options.steps,
    waitMaxMs: leaseMs / WAIT_PART_OF_LEASE,
    onRoom(endpointId) {
      if (endpointId !== undefined && left && !left.some(({ id }) => id === endpointId)) return
      refilling = true
      loop.wake()
    },
    onWritten(dueAtMs) {
      if (dueAtMs !== undefined) nextDueAtMs = Math.min(nextDueAtMs, dueAtMs)
      if (dueAtMs !== undefined || full) loop.wake()
    },
    onUnused: (claims) => void giveBackOrLeave(claims),
  })
  const giveBackOrLeave = async (claims: readonly Claim[]): Promise<void> => {
    if (claims.length === 0) return
    await giveBack(pool, claims).catch((error: unknown) => {
      log.warn({ err: error, deliveries: claims.length }, 'claims wait for the end of their lease')
    })
  }
  return {
    start: loop.start,
    wake() {
      woken = true
      loop.wake()
    },
    allot() {
      if (closing || left === undefined || attempts.count() >= ATTEMPTS_MAX) return []
      const behind = new Set(left.map(({ id }) => id))
      // Those claimed for longest ago come first.
      const keepUp = [...recent.rvalues()]
        .filter((endpoint) => endpoint !== undefined)
        .filter(({ id }) => !behind.has(id) && !pacing.isTroubled(id))
      return pacing.allot(keepUp, attempts.waiting)
    },
    async offer(claims, endpoints) {
      remember(ownPart(endpoints))
      if (closing) await giveBackOrLeave(claims)
      else attempts.offer(claims)
    },
    async stop() {
      closing = true
      const unused = giveBackOrLeave(attempts.close())
      await withTimeout(drained(), DRAIN_MS)
      stopped = true
      const left = giveBackOrLeave([...attempts.close(), ...attempts.abandon()])
      await withTimeout(Promise.all([unused, left]), GIVE_BACK_MS)
    },
  }
}

/** Those that were not given all that is due: they had no room, or got their whole share. */
function endpointsLeft(
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
