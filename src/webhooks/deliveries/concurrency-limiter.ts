import { backoffMs } from '../../core/backoff.ts'

/** How many deliveries of an endpoint may be claimed now. */
export interface Allotment {
  readonly endpointId: string
  /** At least 1. */
  readonly share: number
}

/** An endpoint that deliveries may be sent to. */
export interface LimitedEndpoint {
  readonly id: string
  /** The maximum number of concurrent requests. */
  readonly concurrency: number
  /** The most requests a second of all processes together; 0 or absent: no limit. */
  readonly rateLimit?: number
  /** Whether its events are sent one at a time; absent: no. */
  readonly ordered?: boolean
}

/**
 * Limits the concurrent requests of each endpoint, so that no endpoint delays the others.
 *
 * Each endpoint has its own limit: it starts low, grows by one with each success and falls to one
 * with a failure. An endpoint that fails or is slow is degraded until it responds well again; all
 * degraded endpoints share a separate capacity. One that acknowledges slowly grows too, up to a few
 * requests, so that it keeps up with its payments. So dead endpoints, however many, take no capacity from
 * healthy endpoints, and an endpoint that dies is detected before it has taken much.
 *
 * For an endpoint that responds well at its full limit, deliveries are prefetched: as many as it
 * takes in a quarter of a second, so that a fast receiver does not wait for the database.
 *
 * An endpoint that fails repeatedly gets growing pauses between its attempts, because failures are quick, and a large
 * backlog of such an endpoint would keep the process busy. The pauses are short if the endpoint responds, because a
 * receiver may reject one event and accept the next.
 */
export interface ConcurrencyLimiter {
  /**
   * @param endpoints the endpoints with deliveries due, in round-robin order
   * @param waiting the number of claims that already wait for an endpoint
   * @returns how many to claim for each; endpoints that have enough are left out
   */
  allot(endpoints: readonly LimitedEndpoint[], waiting: (endpointId: string) => number): Allotment[]
  /** Whether to claim more for an endpoint now, if more is due. */
  wantsMore(endpointId: string, waiting: number): boolean
  /** Whether an attempt may start now. */
  mayStart(endpointId: string): boolean
  /** Whether any endpoint may start an attempt. */
  hasCapacity(): boolean
  /** Whether its latest attempt failed or was slow: then no claims may wait for it here. */
  isDegraded(endpointId: string): boolean
  /** @returns milliseconds until the next pause of an endpoint ends; Infinity if none is paused */
  resumesInMs(): number
  /** An attempt has started. */
  started(endpointId: string): void
  /**
   * After how long an attempt counts as slow: sooner for an endpoint that has never responded, because many endpoints
   * that hang from the start would take all the capacity of the healthy endpoints.
   */
  slowAfterMs(endpointId: string): number
  /** An attempt has been in progress for that long. */
  markSlow(endpointId: string): void
  /** The attempt has finished. */
  finished(endpointId: string, result: AttemptResult, latencyMs: number): void
}

/** An attempt's result: acknowledged, acknowledged late, rejected by a response, or without a response. */
export type AttemptResult = 'acknowledged' | 'slow' | 'rejected' | 'no_response'

/** Limits of the attempts in progress, in addition to the limit of each endpoint. */
export const CONCURRENCY_LIMITS = {
  /** The limit of all healthy endpoints together. */
  healthyMax: 100,
  /** The limit of all degraded endpoints together. */
  degradedMax: 50,
  /** The longest pause of an endpoint that responds, and of an endpoint that does not. */
  rejectedPauseMaxMs: 250,
  noResponsePauseMaxMs: 2_000,
}

export type ConcurrencyLimits = Readonly<typeof CONCURRENCY_LIMITS>

interface EndpointState {
  hasResponded: boolean
  inProgress: number
  /** The current limit, which adapts. */
  limit: number
  /** The endpoint's setting, which the limit never exceeds. */
  max: number
  degraded: boolean
  /** Consecutive failures. */
  failures: number
  /** A moving average, weighted towards recent attempts. */
  latencyMs: number
  /** No attempt is claimed before this time; milliseconds on the clock. */
  pausedUntilMs: number
}

const LIMIT_INITIAL = 2

/** An attempt that takes this long makes its endpoint degraded. */
export const SLOW_MS = 2_000
const SLOW_INITIAL_MS = 500

/** The limit of an endpoint that acknowledges, but slowly. */
const SLOW_LIMIT_MAX = 5

/** The prefetch of an endpoint: the deliveries that it takes in this time, up to this number. */
const PREFETCH_MS = 250
const PREFETCH_MAX = 500

/** The most prefetched deliveries of all endpoints together. */
const PREFETCH_ALL_MAX = 1_000

/** The weight of the latest attempt in the average latency. */
const LATENCY_WEIGHT = 0.2

/** The consecutive failures before pauses start, and the first pause. Each later pause is twice as long. */
const FAILURES_FREE = 3
const PAUSE_MIN_MS = 50

/** Endpoints whose state is kept; a forgotten endpoint starts with the initial state. */
const REMEMBERED_MAX = 10_000

/** @param nowMs a clock that never goes back */
export function createConcurrencyLimiter(
  limits: ConcurrencyLimits,
  nowMs: () => number,
): ConcurrencyLimiter {
  const states = createStates(limits)
  return {
    allot(endpoints, waiting) {
      let degradedCapacity = states.capacityLeft('degraded')
      let prefetchCapacity = PREFETCH_ALL_MAX
      for (const { id } of endpoints) prefetchCapacity -= waiting(id)
      const allotments: Allotment[] = []
      for (const { id: endpointId, concurrency, ordered } of endpoints) {
        const state = states.of(endpointId)
        state.max = concurrency
        if (state.pausedUntilMs > nowMs()) continue
        const current = state.inProgress + waiting(endpointId)
        if (!needsMore(state, current)) continue
        const base = Math.min(state.limit, state.max)
        const prefetch = ordered ? 0 : prefetchOf(state)
        const share = state.degraded
          ? Math.min(base - current, degradedCapacity)
          : base + Math.min(prefetch, Math.max(prefetchCapacity, 0)) - current
        if (share < 1) continue
        if (state.degraded) degradedCapacity -= share
        else prefetchCapacity -= share
        allotments.push({ endpointId, share })
      }
      return allotments
    },
    wantsMore(endpointId, waiting) {
      const state = states.of(endpointId)
      if (state.pausedUntilMs > nowMs()) return false
      if (state.degraded && states.capacityLeft('degraded') < 1) return false
      return needsMore(state, state.inProgress + waiting)
    },
    mayStart(endpointId) {
      const state = states.of(endpointId)
      const capacityLeft = states.capacityLeft(groupOf(state))
      return state.inProgress < Math.min(state.limit, state.max) && capacityLeft > 0
    },
    hasCapacity: states.hasCapacity,
    isDegraded: (endpointId) => states.of(endpointId).degraded,
    resumesInMs: () => states.resumesInMs(nowMs()),
    started: (endpointId) => states.count(states.of(endpointId), 1),
    slowAfterMs: (endpointId) => (states.of(endpointId).hasResponded ? SLOW_MS : SLOW_INITIAL_MS),
    markSlow: (endpointId) => states.setDegraded(states.of(endpointId), true),
    finished(endpointId, result, latencyMs) {
      const state = states.of(endpointId)
      states.count(state, -1)
      if (result === 'acknowledged' && state.degraded) states.setDegraded(state, false)
      else if (result === 'acknowledged') state.limit = Math.min(state.limit + 1, state.max)
      else states.setDegraded(state, true)
      if (result === 'slow') state.limit = Math.min(state.limit + 1, SLOW_LIMIT_MAX, state.max)
      else if (result !== 'acknowledged') state.limit = 1
      noteResult(state, result, latencyMs)
      const isPaused = state.failures > 0
      state.pausedUntilMs = isPaused ? nowMs() + pauseMs(state.failures, result, limits) : 0
    },
  }
}

const groupOf = ({ degraded }: EndpointState) => (degraded ? 'degraded' : 'healthy')

/** The states of the endpoints, and the capacities that healthy and degraded endpoints share. */
function createStates(limits: ConcurrencyLimits) {
  const states = new Map<string, EndpointState>()
  const max = { healthy: limits.healthyMax, degraded: limits.degradedMax }
  const inProgress = { healthy: 0, degraded: 0 }
  let degradedCount = 0
  const capacityLeft = (group: keyof typeof max): number => max[group] - inProgress[group]
  return {
    of(endpointId: string): EndpointState {
      const known = states.get(endpointId)
      if (known) return known
      if (states.size >= REMEMBERED_MAX && forgetOne(states)?.degraded) degradedCount -= 1
      const state = {
        hasResponded: false,
        inProgress: 0,
        limit: LIMIT_INITIAL,
        max: LIMIT_INITIAL,
        degraded: false,
        failures: 0,
        latencyMs: PREFETCH_MS,
        pausedUntilMs: 0,
      }
      states.set(endpointId, state)
      return state
    },
    resumesInMs(now: number): number {
      let least = Number.POSITIVE_INFINITY
      for (const { pausedUntilMs } of states.values()) {
        if (pausedUntilMs > now) least = Math.min(least, pausedUntilMs - now)
      }
      return least
    },
    capacityLeft,
    hasCapacity: () =>
      capacityLeft('healthy') > 0 || (degradedCount > 0 && capacityLeft('degraded') > 0),
    /** Counts the attempts in progress of an endpoint. */
    count(state: EndpointState, change: 1 | -1): void {
      state.inProgress += change
      inProgress[groupOf(state)] += change
    },
    /** Moves an endpoint's attempts in progress from one shared capacity to the other. */
    setDegraded(state: EndpointState, degraded: boolean): void {
      if (state.degraded === degraded) return
      inProgress[groupOf(state)] -= state.inProgress
      state.degraded = degraded
      degradedCount += degraded ? 1 : -1
      inProgress[groupOf(state)] += state.inProgress
      state.limit = degraded ? 1 : LIMIT_INITIAL
    },
  }
}

function noteResult(state: EndpointState, result: AttemptResult, latencyMs: number): void {
  if (result !== 'no_response') state.hasResponded = true
  state.latencyMs += LATENCY_WEIGHT * (latencyMs - state.latencyMs)
  const isFailed = result === 'rejected' || result === 'no_response'
  state.failures = isFailed ? state.failures + 1 : 0
}

/** How many claims may wait while the endpoint is at its limit. */
function prefetchOf(state: EndpointState): number {
  if (state.degraded || state.limit < state.max) return 0
  const taken = Math.floor((state.max * PREFETCH_MS) / Math.max(state.latencyMs, 1))
  return Math.min(taken, PREFETCH_MAX)
}

/** Whether to claim more; with a prefetch, only once half of it is used. */
function needsMore(state: EndpointState, current: number): boolean {
  const base = Math.min(state.limit, state.max)
  return current < base + prefetchOf(state) / 2
}

function pauseMs(failures: number, result: AttemptResult, limits: ConcurrencyLimits): number {
  if (failures <= FAILURES_FREE) return 0
  const maxMs = result === 'rejected' ? limits.rejectedPauseMaxMs : limits.noResponsePauseMaxMs
  return backoffMs(failures - FAILURES_FREE, { minMs: PAUSE_MIN_MS, maxMs })
}

/** Forgets the oldest endpoint without an attempt in progress. */
function forgetOne(states: Map<string, EndpointState>): EndpointState | undefined {
  for (const [endpointId, state] of states) {
    if (state.inProgress > 0) continue
    states.delete(endpointId)
    return state
  }
  return undefined
}
