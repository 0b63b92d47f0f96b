/** How many deliveries of an endpoint may be claimed now. */
export interface Allotment {
  readonly endpointId: string
  /** At least 1. */
  readonly share: number
}

/** An endpoint that something may be sent to. */
export interface PacedEndpoint {
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
 */
export interface Pacing {
  /**
   * @param endpoints those with something due, in the order of their turns
   * @returns what to claim for them; those for whom there is no room are left out
   */
  allot(endpoints: readonly PacedEndpoint[]): Allotment[]
  /** A delivery was claimed and is being sent. */
  started(endpointId: string): void
  /** An attempt has been under way for long. */
  slow(endpointId: string): void
  /** The attempt is over. */
  ended(endpointId: string, well: boolean): void
}

/** Bounds of the attempts under way; each endpoint has its own beside them. */
export interface PacingLimits {
  /** Of all that are well. */
  readonly steadyMax: number
  /** Of all that are in trouble. */
  readonly troubledMax: number
}

export const PACING_LIMITS: PacingLimits = { steadyMax: 100, troubledMax: 50 }

interface Pace {
  underWay: number
  /** What it is trusted with. */
  limit: number
  /** What it may get. */
  max: number
  troubled: boolean
}

const LIMIT_AT_FIRST = 2

/** Endpoints whose pace is remembered; one that is forgotten starts anew. */
const REMEMBERED_MAX = 10_000

export function createPacing(limits: PacingLimits): Pacing {
  const paces = new Map<string, Pace>()
  const underWay = { steady: 0, troubled: 0 }
  const lane = (pace: Pace) => (pace.troubled ? 'troubled' : 'steady')

  const paceOf = (endpointId: string): Pace => {
    const known = paces.get(endpointId)
    if (known) return known
    if (paces.size >= REMEMBERED_MAX) forgetOne(paces)
    const pace = { underWay: 0, limit: LIMIT_AT_FIRST, max: LIMIT_AT_FIRST, troubled: false }
    paces.set(endpointId, pace)
    return pace
  }
  /** Attempts under way go with their endpoint from one lane to the other. */
  const move = (pace: Pace, troubled: boolean): void => {
    if (pace.troubled === troubled) return
    underWay[lane(pace)] -= pace.underWay
    pace.troubled = troubled
    underWay[lane(pace)] += pace.underWay
    pace.limit = troubled ? 1 : LIMIT_AT_FIRST
  }
  return {
    allot(endpoints) {
      const room = {
        steady: limits.steadyMax - underWay.steady,
        troubled: limits.troubledMax - underWay.troubled,
      }
      const allotments: Allotment[] = []
      for (const { id: endpointId, concurrency } of endpoints) {
        const pace = paceOf(endpointId)
        pace.max = concurrency
        const share = Math.min(Math.min(pace.limit, pace.max) - pace.underWay, room[lane(pace)])
        if (share < 1) continue
        room[lane(pace)] -= share
        allotments.push({ endpointId, share })
      }
      return allotments
    },
    started(endpointId) {
      const pace = paceOf(endpointId)
      pace.underWay += 1
      underWay[lane(pace)] += 1
    },
    slow(endpointId) {
      move(paceOf(endpointId), true)
    },
    ended(endpointId, well) {
      const pace = paceOf(endpointId)
      pace.underWay -= 1
      underWay[lane(pace)] -= 1
      if (well && !pace.troubled) pace.limit = Math.min(pace.limit + 1, pace.max)
      move(pace, !well)
    },
  }
}

/** Forgets the endpoint known longest among those with nothing under way. */
function forgetOne(paces: Map<string, Pace>): void {
  for (const [endpointId, pace] of paces) {
    if (pace.underWay > 0) continue
    paces.delete(endpointId)
    return
  }
}
