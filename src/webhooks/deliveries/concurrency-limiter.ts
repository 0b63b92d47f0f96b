import { backoffMs } from '../../core/backoff.ts'
/** How many deliveries of an endpoint may be claimed now. */
export interface Allotment {
  readonly endpointId: string
  /** At least 1. */
  readonly share: number
}

/** An endpoint that something may be sent to. */
export interface LimitedEndpoint {
  readonly id: string
  /** How many requests it may get at once. */
  readonly concurrency: number
}

/**
 * Decides who may send how much, so that no endpoint holds up the others.
 *
 * Each endpoint has a limit of its own: it starts low, grows by one with each success and falls to
 * one with a failure. An endpoint that fails or is slow is in trouble until it answers well again;
 * those in trouble share a lane of their own. So dead endpoints, however many, leave the others'
 * room alone, and one that turns dead is found out before it has taken much.
 *
 * One that answers well at its full limit is claimed ahead for: as much as it takes in a quarter of
 * a second, so that a quick receiver does not wait for the database between its requests.
 *
 * One that fails again and again gets pauses between its attempts, which grow: failing is quick,
 * and a large backlog would otherwise keep the process busy with it. They are short where there was
 * an answer, as a receiver may refuse one event and take the next.
 */
export interface ConcurrencyLimiter {
  /**
   * @param endpoints those with something due, in the order of their turns
   * @param waiting how many claims of an endpoint wait already
   * @returns what to claim for them; those that have enough are left out
   */
  allot(endpoints: readonly LimitedEndpoint[], waiting: (endpointId: string) => number): Allotment[]
  /** Whether more should be claimed for an endpoint now, if more is due. */
  wantsMore(endpointId: string, waiting: number): boolean
  /** Whether an attempt may be begun now. */
  mayStart(endpointId: string): boolean
  /** Whether any endpoint at all may begin one. */
  hasRoom(): boolean
  /** Whether it failed or was slow when it last answered: then nothing may wait for it here. */
  isTroubled(endpointId: string): boolean
  /** @returns milliseconds until the next pause of an endpoint ends; Infinity when there is none */
  resumesInMs(): number
  /** An attempt was begun. */
  started(endpointId: string): void
  /**
   * After how long an attempt counts as slow: sooner for an endpoint that has not answered yet, as
   * very many that hang from the beginning would hold all the room of those that are well.
   */
  slowAfterMs(endpointId: string): number
  /** An attempt has been under way for so long. */
  slow(endpointId: string): void
  /** The attempt is over. */
  ended(endpointId: string, ending: Ending, latencyMs: number): void
}

/** How an attempt ended: acknowledged soon, late, refused by an answer, or without one. */
export type Ending = 'well' | 'slow' | 'refused' | 'unanswered'

/** Bounds of the attempts under way; each endpoint has its own beside them. */
export interface ConcurrencyLimits {
  /** Of all that are well. */
  readonly steadyMax: number
  /** Of all that are in trouble. */
  readonly troubledMax: number
  /** The longest pause of an endpoint that answers, and of one that does not. */
  readonly refusedPauseMaxMs: number
  readonly unansweredPauseMaxMs: number
}

export const PACING_LIMITS: ConcurrencyLimits = {
  steadyMax: 100,
  troubledMax: 50,
  refusedPauseMaxMs: 250,
  unansweredPauseMaxMs: 2_000,
}

interface Pace {
  hasAnswered: boolean
  underWay: number
  /** What it is trusted with. */
  limit: number
  /** What it may get. */
  max: number
  troubled: boolean
  /** In a row. */
  failures: number
  /** Of its answers, the later ones counting more. */
  latencyMs: number
  /** No attempt before; milliseconds on the clock. */
  pausedUntilMs: number
}

const LIMIT_AT_FIRST = 2

/** An attempt that takes this long counts its endpoint among those in trouble. */
export const SLOW_MS = 2_000
const SLOW_AT_FIRST_MS = 500

/** What is claimed ahead for an endpoint is what it takes in this time, and no more than so many. */
const AHEAD_MS = 250
const AHEAD_MAX = 500

/** Of all endpoints together. */
const AHEAD_ALL_MAX = 1_000

/** How much the latest answer says of an endpoint's latency. */
const LATENCY_WEIGHT = 0.2

/** Failures in a row before pauses begin, and the first pause; each next one is twice as long. */
const FAILURES_FREE = 3
const PAUSE_MIN_MS = 50

/** Endpoints whose pace is remembered; one that is forgotten starts anew. */
const REMEMBERED_MAX = 10_000

/** @param nowMs a clock that never goes back */
export function createConcurrencyLimiter(
  limits: ConcurrencyLimits,
  nowMs: () => number,
): ConcurrencyLimiter {
  const paces = new Map<string, Pace>()
  const underWay = { steady: 0, troubled: 0 }
  let troubledCount = 0
  const lane = (pace: Pace) => (pace.troubled ? 'troubled' : 'steady')

  const paceOf = (endpointId: string): Pace => {
    const known = paces.get(endpointId)
    if (known) return known
    if (paces.size >= REMEMBERED_MAX && forgetOne(paces)?.troubled) troubledCount -= 1
    const pace = {
      hasAnswered: false,
      underWay: 0,
      limit: LIMIT_AT_FIRST,
      max: LIMIT_AT_FIRST,
      troubled: false,
      failures: 0,
      latencyMs: AHEAD_MS,
      pausedUntilMs: 0,
    }
    paces.set(endpointId, pace)
    return pace
  }
  /** AttemptRunner under way go with their endpoint from one lane to the other. */
  const move = (pace: Pace, troubled: boolean): void => {
    if (pace.troubled === troubled) return
    underWay[lane(pace)] -= pace.underWay
    pace.troubled = troubled
    troubledCount += troubled ? 1 : -1
    underWay[lane(pace)] += pace.underWay
    pace.limit = troubled ? 1 : LIMIT_AT_FIRST
  }
  const roomIn = (pace: Pace): number =>
    (pace.troubled ? limits.troubledMax : limits.steadyMax) - underWay[lane(pace)]

  return {
    allot(endpoints, waiting) {
      let troubledRoom = limits.troubledMax - underWay.troubled
      let aheadRoom = AHEAD_ALL_MAX
      for (const { id } of endpoints) aheadRoom -= waiting(id)
      const allotments: Allotment[] = []
      for (const { id: endpointId, concurrency } of endpoints) {
        const pace = paceOf(endpointId)
        pace.max = concurrency
        if (pace.pausedUntilMs > nowMs()) continue
        const held = pace.underWay + waiting(endpointId)
        if (!isShort(pace, held)) continue
        const base = Math.min(pace.limit, pace.max)
        const share = pace.troubled
          ? Math.min(base - held, troubledRoom)
          : base + Math.min(aheadOf(pace), Math.max(aheadRoom, 0)) - held
        if (share < 1) continue
        if (pace.troubled) troubledRoom -= share
        else aheadRoom -= share
        allotments.push({ endpointId, share })
      }
      return allotments
    },
    wantsMore(endpointId, waiting) {
      const pace = paceOf(endpointId)
      if (pace.pausedUntilMs > nowMs() || (pace.troubled && roomIn(pace) < 1)) return false
      return isShort(pace, pace.underWay + waiting)
    },
    mayStart(endpointId) {
      const pace = paceOf(endpointId)
      return pace.underWay < Math.min(pace.limit, pace.max) && roomIn(pace) > 0
    },
    hasRoom: () =>
      underWay.steady < limits.steadyMax ||
      (troubledCount > 0 && underWay.troubled < limits.troubledMax),
    isTroubled: (endpointId) => paceOf(endpointId).troubled,
    resumesInMs() {
      const now = nowMs()
      let least = Number.POSITIVE_INFINITY
      for (const { pausedUntilMs } of paces.values()) {
        if (pausedUntilMs > now) least = Math.min(least, pausedUntilMs - now)
      }
      return least
    },
    started(endpointId) {
      const pace = paceOf(endpointId)
      pace.underWay += 1
      underWay[lane(pace)] += 1
    },
    slowAfterMs: (endpointId) => (paceOf(endpointId).hasAnswered ? SLOW_MS : SLOW_AT_FIRST_MS),
    slow(endpointId) {
      move(paceOf(endpointId), true)
    },
    ended(endpointId, ending, latencyMs) {
      const pace = paceOf(endpointId)
      const well = ending === 'well'
      if (ending !== 'unanswered') pace.hasAnswered = true
      pace.underWay -= 1
      underWay[lane(pace)] -= 1
      if (well && !pace.troubled) pace.limit = Math.min(pace.limit + 1, pace.max)
      move(pace, !well)
      pace.latencyMs += LATENCY_WEIGHT * (latencyMs - pace.latencyMs)
      const failed = ending === 'refused' || ending === 'unanswered'
      pace.failures = failed ? pace.failures + 1 : 0
      pace.pausedUntilMs = failed ? nowMs() + pauseMs(pace.failures, ending, limits) : 0
    },
  }
}

/** How many claims may wait while all that may be under way is. */
function aheadOf(pace: Pace): number {
  if (pace.troubled || pace.limit < pace.max) return 0
  const taken = Math.floor((pace.max * AHEAD_MS) / Math.max(pace.latencyMs, 1))
  return Math.min(taken, AHEAD_MAX)
}

/** Whether it has room; where claims are made ahead, not before half of them are used. */
function isShort(pace: Pace, held: number): boolean {
  const base = Math.min(pace.limit, pace.max)
  return held < base + aheadOf(pace) / 2
}

function pauseMs(failures: number, ending: Ending, limits: ConcurrencyLimits): number {
  if (failures <= FAILURES_FREE) return 0
  const maxMs = ending === 'refused' ? limits.refusedPauseMaxMs : limits.unansweredPauseMaxMs
  return backoffMs(failures - FAILURES_FREE, { minMs: PAUSE_MIN_MS, maxMs })
}

/** Forgets the endpoint known longest among those with nothing under way. */
function forgetOne(paces: Map<string, Pace>): Pace | undefined {
  for (const [endpointId, pace] of paces) {
    if (pace.underWay > 0) continue
    paces.delete(endpointId)
    return pace
  }
  return undefined
}
