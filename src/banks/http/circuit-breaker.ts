import {
  type CircuitBreakerPolicy,
  CircuitState,
  circuitBreaker,
  handleWhen,
  type IBreaker,
} from 'cockatiel'
import type { Clock } from '../../core/clock.ts'
import type { BankResponse } from './bank-http.ts'

/** The limits at which the circuit breaker of a bank opens and half-opens. */
export interface BreakerLimits {
  /** Opens after this many consecutive failures within the window. */
  readonly failureThreshold: number
  readonly windowMs: number
  /** How long the breaker stays open before it lets a probe request through. */
  readonly openMs: number
}

/**
 *     closed ──failures──▶ open ──time──▶ half-open ──success──▶ closed
 *                            ▲                └──failure──▶ open
 */
export type BreakerState = 'closed' | 'open' | 'half-open'

/** The error of a request whose caller gave up too early to blame the bank; the breaker ignores it. */
export class EarlyAbortError extends Error {
  override readonly name = 'EarlyAbortError'
}

/** Stops requests to a bank that does not respond. */
export function createCircuitBreaker(
  limits: BreakerLimits,
  clock: Clock,
  onChange?: (state: 'open' | 'closed') => void,
) {
  let openedAtMs = 0
  const policy: CircuitBreakerPolicy = circuitBreaker(
    handleWhen((error) => {
      // An aborted probe counts as a failure, because cockatiel knows only success and failure.
      return !(error instanceof EarlyAbortError) || policy.state === CircuitState.HalfOpen
    }).orWhenResult((response) => (response as BankResponse).status >= 500),
    { halfOpenAfter: limits.openMs, breaker: recentFailures(limits, clock) },
  )
  policy.onBreak(() => {
    openedAtMs = clock.now()
    onChange?.('open')
  })
  policy.onReset(() => onChange?.('closed'))
  const state = (): BreakerState => {
    if (policy.state === CircuitState.Closed) return 'closed'
    // Cockatiel reports half-open only after a probe is sent.
    const isProbeAllowed =
      policy.state === CircuitState.HalfOpen || clock.now() >= openedAtMs + limits.openMs
    return isProbeAllowed ? 'half-open' : 'open'
  }
  return { policy, state }
}

/** Counts recent failures. Cockatiel's own ConsecutiveBreaker has no time window. */
function recentFailures({ failureThreshold, windowMs }: BreakerLimits, clock: Clock): IBreaker {
  let failedAtMs: readonly number[] = []
  return {
    // Required by cockatiel to persist the state, which is not used here.
    state: undefined,
    success() {
      failedAtMs = []
    },
    failure() {
      const nowMs = clock.now()
      failedAtMs = [...failedAtMs, nowMs].filter((atMs) => atMs > nowMs - windowMs)
      return failedAtMs.length >= failureThreshold
    },
  }
}
