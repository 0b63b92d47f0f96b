import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { withTimeout } from '../../core/concurrency.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { AttemptRunner, type AttemptSteps } from './attempt-runner.ts'
import { createPendingFrom } from './backlog.ts'
import {
  type Claim,
  failClaims,
  listPendingEndpoints,
  type PendingEndpoint,
  releaseClaims,
  type UnclearClaims,
} from './claim-deliveries.ts'
import { claimAllotted } from './claim-ordered.ts'
import {
  type Allotment,
  type ConcurrencyLimiter,
  type ConcurrencyLimits,
  createConcurrencyLimiter,
  type LimitedEndpoint,
} from './concurrency-limiter.ts'
import { type CreateRate, limitRates } from './rate-limiter.ts'

interface WorkerOptions {
  readonly limits: ConcurrencyLimits
  readonly leaseMs: number
  /** Shared with the dispatcher. */
  readonly unclear: UnclearClaims
  readonly steps: AttemptSteps
  readonly createRate: CreateRate
}

/** The size of a page of endpoints, and the number of recently served endpoints remembered. */
const PAGE_MAX = 256

/** The most attempts of all endpoints that are started and not recorded yet. At this number, a turn claims nothing. */
const ATTEMPTS_MAX = 1_000

/** A claim that waits longer than a quarter of its lease is released. */
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
export class Worker implements Loop {
  readonly #runtime: Runtime
  readonly #options: WorkerOptions
  readonly #limiter: ConcurrencyLimiter
  readonly #attempts: AttemptRunner
  readonly #loop: Loop
  readonly #roundRobin = createRoundRobin(PAGE_MAX)
  readonly #readPendingFrom: (nowMs: number) => Promise<bigint>
  #nextDueAtMs = Number.POSITIVE_INFINITY
  /**
   * When the list was last read. The list is read again after a while even if endpoints are left, so that an endpoint with
   * a constant backlog does not delay the others.
   */
  #listedAtMs = 0
  #full = false
  /** Endpoints with more due deliveries after the last turn; undefined if the turn did not read all endpoints. */
  #backlogged: readonly PendingEndpoint[] | undefined
  /** Whether the next turn claims more only for the backlogged endpoints, without reading the list again. */
  #refilling = false
  /** Endpoints served recently. */
  readonly #recent = new LRUCache<string, LimitedEndpoint>({ max: PAGE_MAX })
  #woken = false
  #closing = false
  #stopped = false

  constructor(runtime: Runtime, options: WorkerOptions) {
    const { clock, log } = runtime
    const { relaxedPool } = runtime.database
    const { limits, steps, leaseMs } = options
    this.#runtime = runtime
    this.#options = options
    this.#readPendingFrom = createPendingFrom(relaxedPool, IDLE_MS)
    const limiter = createConcurrencyLimiter(limits, () => performance.now())
    this.#limiter = limitRates(limiter, options.createRate)
    this.#loop = createLoop({ name: 'webhook worker', log, turn: () => this.#turn() })
    this.#attempts = new AttemptRunner({
      clock,
      limiter: this.#limiter,
      steps,
      waitMaxMs: leaseMs / LEASE_PER_WAIT,
      onCapacity: (endpointId) => this.#refill(endpointId),
      onRecorded: (dueAtMs, claim) => this.#recorded(dueAtMs, claim),
      onUnused: (claims) => void releaseOrLeave(runtime, claims),
    })
  }

  start(afterMs?: number): void {
    this.#loop.start(afterMs)
  }

  wake(): void {
    this.#woken = true
    this.#loop.wake()
  }

  /**
   * How many new deliveries may be created as claimed, for endpoints that were served recently, are healthy and have no
   * other deliveries due.
   */
  allot(): Allotment[] {
    const backlogged = this.#backlogged
    if (this.#closing || backlogged === undefined || this.#isFull()) return []
    const behind = new Set(backlogged.map(({ id }) => id))
    // The least recently served come first.
    const keepUp = [...this.#recent.rvalues()]
      .filter((endpoint) => endpoint !== undefined)
      .filter(({ id, ordered }) => !ordered && !behind.has(id) && !this.#limiter.isDegraded(id))
    return this.#limiter.allot(keepUp, (id) => this.#attempts.waiting(id))
  }

  /** Sends deliveries created as claimed. While the worker stops, it releases them instead. */
  async enqueue(claims: readonly Claim[], endpoints: readonly LimitedEndpoint[]): Promise<void> {
    this.#remember(endpoints)
    if (this.#closing) await releaseOrLeave(this.#runtime, claims)
    else this.#attempts.enqueue(claims)
  }

  async stop(): Promise<void> {
    this.#closing = true
    const unused = releaseOrLeave(this.#runtime, this.#attempts.close())
    await withTimeout(this.#drained(), DRAIN_MS)
    this.#stopped = true
    const inProgress = this.#attempts.abandon()
    if (inProgress.length > 0) {
      const fields = { deliveries: inProgress.length }
      this.#runtime.log.warn(fields, 'webhooks in progress are released: they are sent again')
    }
    const left = [...this.#attempts.close(), ...inProgress]
    const abandoned = releaseOrLeave(this.#runtime, left)
    await withTimeout(Promise.all([unused, abandoned]), RELEASE_MS)
  }

  /** Claims once, and starts the claimed attempts. @returns milliseconds until the next turn */
  async #turn(): Promise<number> {
    this.#attempts.markSlow()
    this.#attempts.startWaiting()
    this.#full = this.#isFull()
    if (this.#full) return IDLE_MS
    const { clock, database, log } = this.#runtime
    const { relaxedPool } = database
    const { leaseMs, unclear } = this.#options
    await unclear.release()
    const nowMs = clock.now()
    const pendingFrom = await this.#readPendingFrom(nowMs)
    const { page, due } = await this.#list(nowMs, pendingFrom)
    const allotments = this.#limiter.allot(due, (id) => this.#attempts.waiting(id))
    const ordered = new Set(due.flatMap((endpoint) => (endpoint.ordered ? endpoint.id : [])))
    const terms = { nowMs, leaseMs, pendingFrom }
    const { claims, lost } = await claimAllotted(relaxedPool, allotments, ordered, terms, {
      log,
      unclear,
    })
    // If the worker stopped without waiting for the statement, the leases expire by themselves.
    if (this.#stopped) return IDLE_MS
    this.#attempts.enqueue(claims)
    if (lost.length > 0) await failClaims(relaxedPool, lost, nowMs, 'the event expired')
    const served = new Set(claims.map(({ endpointId }) => endpointId))
    this.#remember(due.filter(({ id }) => served.has(id)))
    const isWhole = this.#roundRobin.after() === '' && page.length < PAGE_MAX
    this.#backlogged = isWhole ? backloggedEndpoints(due, allotments, claims) : undefined
    const isAny = claims.length + lost.length > 0
    if (this.#roundRobin.advance(page, isAny ? allotments.at(-1)?.endpointId : undefined)) return 0
    return this.#untilNextMs()
  }

  /** The endpoints with due deliveries: the endpoints that are known to have more, or a page of all endpoints. */
  async #list(nowMs: number, pendingFrom: bigint) {
    const isFresh = nowMs - this.#listedAtMs < IDLE_MS && nowMs >= this.#listedAtMs
    const mayReuse = this.#refilling && isFresh && !this.#woken && this.#nextDueAtMs > nowMs
    const known = mayReuse ? this.#backlogged : undefined
    this.#refilling = false
    this.#woken = false
    if (this.#nextDueAtMs <= nowMs) this.#nextDueAtMs = Number.POSITIVE_INFINITY
    if (known !== undefined) return { page: known, due: this.#roundRobin.order(known) }
    this.#listedAtMs = nowMs
    const { relaxedPool } = this.#runtime.database
    const page = await listPendingEndpoints(relaxedPool, {
      after: this.#roundRobin.after(),
      nowMs,
      pendingFrom,
      limit: PAGE_MAX,
    })
    const due = page.filter((endpoint) => endpoint.due)
    return { page, due: this.#roundRobin.order(due) }
  }

  #untilNextMs(): number {
    // Some endpoints may have finished all their attempts during this turn.
    this.#refilling =
      this.#backlogged?.some(({ id }) => this.#limiter.wantsMore(id, this.#attempts.waiting(id))) ??
      false
    if (this.#refilling) return 0
    // Without capacity, check more often for attempts that have become slow.
    const checkMs = this.#limiter.hasCapacity() ? IDLE_MS : FULL_CHECK_MS
    const dueInMs = this.#nextDueAtMs - this.#runtime.clock.now()
    return Math.max(Math.min(dueInMs, this.#limiter.resumesInMs(), checkMs), 0)
  }

  #isFull(): boolean {
    return this.#attempts.count() >= ATTEMPTS_MAX
  }

  #remember(endpoints: readonly LimitedEndpoint[]): void {
    for (const endpoint of endpoints) this.#recent.set(endpoint.id, endpoint)
  }

  #refill(endpointId: string | undefined): void {
    const isDone =
      endpointId !== undefined && this.#backlogged?.every(({ id }) => id !== endpointId)
    if (isDone) return
    this.#refilling = true
    this.#loop.wake()
  }

  #recorded(dueAtMs: number | undefined, { ordered }: Claim): void {
    // The next delivery of its endpoint may be sent now.
    if (ordered) this.wake()
    if (dueAtMs !== undefined) this.#nextDueAtMs = Math.min(this.#nextDueAtMs, dueAtMs)
    if (dueAtMs !== undefined || this.#full) this.#loop.wake()
  }

  async #drained(): Promise<void> {
    await this.#loop.stop()
    while (this.#attempts.count() > 0 && !this.#stopped) await sleep(DRAIN_CHECK_MS)
  }
}

/** Releases claims; if that fails, their leases expire. */
async function releaseOrLeave(
  { database: { relaxedPool }, log }: Runtime,
  claims: readonly Claim[],
): Promise<void> {
  if (claims.length === 0) return
  await releaseClaims(relaxedPool, claims).catch((error: unknown) => {
    log.warn(
      { err: error, deliveries: claims.length },
      'claims could not be released: their leases expire later',
    )
  })
}

/** The endpoints that may have more due deliveries: they had no capacity, or used their whole share. */
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

/**
 * Serves endpoints in the order of their ids, round robin. Endpoints with pending deliveries are
 * read in pages; usually all fit into one page.
 *
 * @param pageMax the size of a full page; a smaller page is the last of the round
 */
function createRoundRobin(pageMax: number) {
  let pageAfter = ''
  let lastServed = ''
  let servedInRound = false
  return {
    /** The next page starts after this endpoint; '' for the first page. */
    after: () => pageAfter,
    /** Sorts a page so that the endpoints after the last served endpoint come first. */
    order(page: readonly PendingEndpoint[]): PendingEndpoint[] {
      const later = page.filter(({ id }) => id > lastServed)
      return [...later, ...page.slice(0, page.length - later.length)]
    },
    /**
     * Moves to the next page.
     *
     * @param served the last endpoint for which a delivery was claimed; undefined if there is none
     * @returns whether to read the next page now: a full round without a claim ends the work
     */
    advance(page: readonly PendingEndpoint[], served: string | undefined): boolean {
      if (served !== undefined) {
        lastServed = served
        servedInRound = true
      }
      const last = page.length < pageMax ? undefined : page.at(-1)?.id
      // With a single page, the rest is claimed when an endpoint has capacity for it.
      const again = last !== undefined || (pageAfter !== '' && servedInRound)
      if (last === undefined) servedInRound = false
      pageAfter = last ?? ''
      return again
    },
  }
}
