import type { Clock } from '../clock.ts'

/** How much of a bank's silence is enough. */
export interface BreakerLimits {
  /** So many failures one after another, none of them older than the window, open it. */
  readonly failuresMax: number
  readonly windowMs: number
  /** How long it stays open before one request may try. */
  readonly openMs: number
}

/**
 *     closed ──failures──▶ open ──time──▶ half open ──success──▶ closed
 *                            ▲                └──failure──▶ open
 */
export type BreakerState = 'closed' | 'open' | 'half open'

/** Keeps requests from a bank that does not answer. */
export interface CircuitBreaker {
  /**
   * Asks for leave to send one request; it has to be followed by one call of what it returns.
   *
   * @returns undefined while the breaker is open, or its one probe is under way
   */
  admit(): ((ending: 'success' | 'failure' | 'neither') => void) | undefined
  state(): BreakerState
}

export function createCircuitBreaker(limits: BreakerLimits, clock: Clock): CircuitBreaker {
  /** Times of the latest failures since the last success, the oldest first. */
  let failures: number[] = []
  let openedAtMs: number | undefined
  let probing = false

  const open = (): void => {
    failures = []
    openedAtMs = clock.now()
  }
  const failed = (): void => {
    const nowMs = clock.now()
    failures = [...failures, nowMs].filter((atMs) => atMs > nowMs - limits.windowMs)
    if (failures.length >= limits.failuresMax) open()
  }
  const state = (): BreakerState => {
    if (openedAtMs === undefined) return 'closed'
    return clock.now() < openedAtMs + limits.openMs ? 'open' : 'half open'
  }
  const probe: ReturnType<CircuitBreaker['admit']> = (ending) => {
    probing = false
    if (ending === 'failure') open()
    if (ending === 'success') openedAtMs = undefined
  }
  return {
    admit() {
      const now = state()
      if (now === 'open' || (now === 'half open' && probing)) return undefined
      if (now === 'half open') {
        probing = true
        return probe
      }
      return (ending) => {
        // A request from before it opened says nothing about the bank of now.
        if (openedAtMs !== undefined) return
        if (ending === 'success') failures = []
        if (ending === 'failure') failed()
      }
    },
    state,
  }
}
