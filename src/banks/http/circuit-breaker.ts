import {
  type CircuitBreakerPolicy,
  CircuitState,
  circuitBreaker,
  handleWhen,
  type IBreaker,
} from 'cockatiel'
import type { Clock } from '../../core/clock.ts'
import type { BankAnswer } from './bank-http.ts'

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

/** The caller gave up before the bank could be called silent: it says nothing of the bank. */
export class BankTimeoutError extends Error {
  override readonly name = 'BankTimeoutError'
}

/** Keeps requests from a bank that does not answer. */
interface CircuitBreaker {
  readonly policy: CircuitBreakerPolicy
  state(): BreakerState
}

export function createCircuitBreaker(limits: BreakerLimits, clock: Clock): CircuitBreaker {
  let openedAtMs = 0
  const policy: CircuitBreakerPolicy = circuitBreaker(
    handleWhen((error) => {
      // A probe whose caller gave up shows nothing either, and cockatiel knows good and bad alone.
      return !(error instanceof BankTimeoutError) || policy.state === CircuitState.HalfOpen
    }).orWhenResult((answer) => (answer as BankAnswer).status >= 500),
    { halfOpenAfter: limits.openMs, breaker: recentFailures(limits, clock) },
  )
  policy.onBreak(() => {
    openedAtMs = clock.now()
  })
  const state = (): BreakerState => {
    if (policy.state === CircuitState.Closed) return 'closed'
    // Cockatiel calls it half open once a request tries.
    const mayTry =
      policy.state === CircuitState.HalfOpen || clock.now() >= openedAtMs + limits.openMs
    return mayTry ? 'half open' : 'open'
  }
  return { policy, state }
}

/** Cockatiel's own count of failures one after another has no end of time. */
function recentFailures({ failuresMax, windowMs }: BreakerLimits, clock: Clock): IBreaker {
  let timesMs: readonly number[] = []
  return {
    // For keeping it over a restart, which nobody does.
    state: undefined,
    success() {
      timesMs = []
    },
    failure() {
      const nowMs = clock.now()
      timesMs = [...timesMs, nowMs].filter((atMs) => atMs > nowMs - windowMs)
      return timesMs.length >= failuresMax
    },
  }
}
