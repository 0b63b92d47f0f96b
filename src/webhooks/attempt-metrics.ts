import { Counter, type Registry } from 'prom-client'
import { createTimer } from '../tracing/tracing.ts'

/** How an attempt ended. */
export type AttemptOutcome = 'acknowledged' | 'rejected' | 'no_response'

/** Measures attempts and deliveries. */
export interface AttemptMetrics {
  /**
   * An attempt ended.
   *
   * @param latencyMs from its start to the end of the response
   * @param traceId of the recorded trace that it is a step of
   */
  attempted(live: boolean, outcome: AttemptOutcome, latencyMs: number, traceId?: string): void
  /** A delivery was acknowledged. @param lagMs since its event occurred */
  delivered(live: boolean, lagMs: number, traceId?: string): void
  /** The last attempt of a delivery failed. */
  failed(live: boolean): void
}

const OUTCOMES: readonly AttemptOutcome[] = ['acknowledged', 'rejected', 'no_response']
const MODES = ['live', 'test'] as const

/** A receiver nearby responds in milliseconds; after 15 s the attempt is over. */
const ATTEMPT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]

/** Tens of milliseconds at the first attempt; minutes to days when retries were needed. */
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 28_800, 86_400]

function byMode(configuration: Parameters<typeof createTimer<'mode'>>[0], register: Registry) {
  const timer = createTimer(configuration, register)
  return { live: timer.of({ mode: 'live' }), test: timer.of({ mode: 'test' }) }
}

const modeOf = (live: boolean) => (live ? 'live' : 'test')

export function createAttemptMetrics(register: Registry): AttemptMetrics {
  const registers = [register]
  const attempts = new Counter({
    name: 'inflow_webhook_attempts_total',
    help: 'Webhook requests by outcome; rejected: a response other than 2xx, no_response: a network fault or a time-out.',
    labelNames: ['outcome', 'mode'],
    registers,
  })
  const duration = byMode(
    {
      name: 'inflow_webhook_attempt_duration_seconds',
      help: 'Duration of a webhook request, to the end of its response.',
      labelNames: ['mode'],
      buckets: ATTEMPT_BUCKETS,
    },
    register,
  )
  const lag = byMode(
    {
      name: 'inflow_webhook_delivery_lag_seconds',
      help: 'Time from an event to its acknowledgement by the receiver, with all retries.',
      labelNames: ['mode'],
      buckets: LAG_BUCKETS,
    },
    register,
  )
  const failures = new Counter({
    name: 'inflow_webhook_deliveries_failed_total',
    help: 'Webhook deliveries whose last attempt failed.',
    labelNames: ['mode'],
    registers,
  })
  // From the start, because Prometheus sees no increase from absent to 1.
  for (const mode of MODES) {
    for (const outcome of OUTCOMES) attempts.inc({ outcome, mode }, 0)
    failures.inc({ mode }, 0)
  }
  return {
    attempted(live, outcome, latencyMs, traceId) {
      attempts.inc({ outcome, mode: modeOf(live) })
      duration[modeOf(live)](latencyMs / 1_000, traceId)
    },
    delivered: (live, lagMs, traceId) => lag[modeOf(live)](Math.max(0, lagMs) / 1_000, traceId),
    failed: (live) => failures.inc({ mode: modeOf(live) }),
  }
}
