import { inFile } from './mutation.ts'

const WEBHOOK_METRICS = 'test/webhooks/metrics.test.ts'

const payments = inFile(
  'src/transactions/metrics/count-payments.ts',
  'test/transactions/metrics.test.ts',
)
const sampled = inFile('src/core/sampled-gauges.ts', 'test/core/sampled-gauges.test.ts')
const backlog = inFile('src/webhooks/metrics/read-pending.ts', WEBHOOK_METRICS)
const attempts = inFile('src/webhooks/metrics/attempt-metrics.ts', WEBHOOK_METRICS)
const settlementLag = inFile(
  'src/settlement/metrics/register-lag.ts',
  'test/settlement/metrics.test.ts',
)
const certificates = inFile(
  'src/server/certificate-metrics.ts',
  'test/protocols/tls/certificate-metrics.test.ts',
)
const timer = inFile('src/tracing/timer.ts', 'test/tracing/exemplars.test.ts')

/** Metrics that alerts rely on: a wrong one wakes an engineer for nothing, or lets one sleep. */
export const METRICS = [
  payments(
    'money that is only announced counts as received',
    "if (outcome === 'RECORDED' && transaction?.status === 'SUCCESS')",
    "if (outcome === 'RECORDED')",
  ),
  payments(
    'money of a repeated report counts twice',
    "if (outcome === 'RECORDED' && transaction?.status === 'SUCCESS')",
    "if (transaction?.status === 'SUCCESS')",
  ),
  payments(
    'an unavailable database looks as if it refused payments',
    "counts[isUnavailable ? 'UNAVAILABLE' : 'REFUSED'] += 1",
    'counts.REFUSED += 1',
  ),
  sampled(
    'a gauge shows 0 while its value is not known',
    'else if (labelNames.length === 0) this.remove()',
    '',
  ),
  sampled('an old value hides that the database is unavailable', 'this.reset()\n', '\n'),
  sampled(
    'a scrape waits for a database that does not respond',
    'await withTimeout(taken, timeoutMs).catch(() => false)',
    'await taken.then(() => true, () => false)',
  ),
  backlog(
    'the backlog of disabled endpoints alarms as if they were served',
    "case when e.disabled_at is not null then 'disabled'",
    "case when false then 'disabled'",
  ),
  backlog(
    'a delivery in progress counts as overdue',
    'and (leased_until is null or leased_until <= clock_timestamp())',
    '',
  ),
  attempts(
    'failed test webhooks alarm as live ones',
    'failed: (live) => failures.inc({ mode: modeOf(live) })',
    "failed: () => failures.inc({ mode: 'live' })",
  ),
  settlementLag('the settlement lag is that of test mode', 'live: true', 'live: false'),
  certificates(
    'a file of certificates alarms when its last one expires',
    'Math.min(...times)',
    'Math.max(...times)',
  ),
  timer(
    'an exemplar names a trace that no collector has',
    'return span?.isRecorded ? span.context.traceId : undefined',
    'return span?.context.traceId',
  ),
]
