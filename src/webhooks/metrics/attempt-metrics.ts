import { Counter, Histogram, type Registry } from 'prom-client'

/** How an attempt ended. */
export type AttemptOutcome = 'acknowledged' | 'rejected' | 'no_response'

/** Measures attempts and deliveries. */
export interface AttemptMetrics {
  /** An attempt ended. @param latencyMs from its start to the end of the response */
  attempted(live: boolean, outcome: AttemptOutcome, latencyMs: number): void
  /** A delivery was acknowledged. @param lagMs since its event occurred */
  delivered(live: boolean, lagMs: number): void
  /** The last attempt of a delivery failed. */
  failed(live: boolean): void
}

const OUTCOMES: readonly AttemptOutcome[] = ['acknowledged', 'rejected', 'no_response']
const MODES = ['live', 'test'] as const

/** A receiver nearby responds in milliseconds; after 15 s the attempt is over. */
const ATTEMPT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]

/** Tens of milliseconds at the first attempt; minutes to days when retries were needed. */
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 28_800, 86_400]

const modeOf = (live: boolean) => (live ? 'live' : 'test')

export function createAttemptMetrics(register: Registry): AttemptMetrics {
  const registers = [register]
  const attempts = new Counter({
    name: 'inflow_webhook_attempts_total',
    help: 'Webhook requests by outcome; rejected: a response other than 2xx, no_response: a network fault or a time-out.',
    labelNames: ['outcome', 'mode'],
    registers,
  })
  const seconds = new Histogram({
    name: 'inflow_webhook_attempt_duration_seconds',
    help: 'Duration of a webhook request, to the end of its response.',
    labelNames: ['mode'],
    buckets: ATTEMPT_BUCKETS,
    registers,
  })
  const lag = new Histogram({
    name: 'inflow_webhook_delivery_lag_seconds',
    help: 'Time from an event to its acknowledgement by the receiver, with all retries.',
    labelNames: ['mode'],
    buckets: LAG_BUCKETS,
    registers,
  })
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
    seconds.zero({ mode })
    lag.zero({ mode })
  }
  return {
    attempted(live, outcome, latencyMs) {
      const mode = modeOf(live)
      attempts.inc({ outcome, mode })
      seconds.observe({ mode }, latencyMs / 1_000)
    },
    delivered: (live, lagMs) => lag.observe({ mode: modeOf(live) }, Math.max(0, lagMs) / 1_000),
    failed: (live) => failures.inc({ mode: modeOf(live) }),
  }
}
