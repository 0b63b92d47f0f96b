import { startPayments } from './payments.ts'
import { type Benchmark, percentile, toFigure } from './rounds.ts'
import { memoryOf, openBusiness, readMetrics, startLocalService } from './service.ts'

const SAMPLE_SECONDS = 30
const CALIBRATION_SECONDS = 10

/**
 * Half of the maximum load for a long time: payments, a look-up of each, five subscribers, webhooks. Runs 30 minutes,
 * or SOAK_MINUTES.
 */
export const soak: Benchmark = async (bench) => {
  const count = Math.round((Number(process.env['SOAK_MINUTES'] ?? 30) * 60) / SAMPLE_SECONDS)
  if (!(count >= 3))
    throw new Error('SOAK_MINUTES must be at least 1.5: the run is divided into three thirds')
  const service = await startLocalService(bench)
  const load = await startPayments(bench)
  const { accountNumbers, secretKey } = await openBusiness(service, {
    accounts: 500,
    urls: [load.ready],
    endpoint: { kinds: ['PAYMENT_NOTIFICATION'], concurrency: 50 },
  })
  const lookUp = { url: `${service.httpUrl}/v2/thirdparty/getTransaction/`, secretKey }
  const everything = { ...service, accountNumbers, subscribers: 5, webhooks: true, lookUp }
  let perSecond = 0
  // The first calibration only warms up the compiler.
  for (let calibration = 1; calibration <= 2; calibration++) {
    const startedMs = performance.now()
    const most = { seconds: CALIBRATION_SECONDS, atATime: 64, pauseMaxMs: 0 }
    const { payments, failures } = await load.run({ ...everything, ...most })
    if (failures[0] !== undefined) throw new Error(failures[0])
    const highest = (payments.length * 1_000) / (performance.now() - startedMs)
    const all = 'with their look-ups, events and webhooks'
    bench.log(`  maximum: ${highest.toFixed(0)} payments/s, ${all}`)
    perSecond = highest / 2
  }
  const samples: Readonly<Record<string, number>>[] = []
  const errors: string[] = []
  for (let i = 1; i <= count; i++) {
    const startedMs = performance.now()
    const limited = { seconds: SAMPLE_SECONDS, perSecond }
    const { payments, failures } = await load.run({ ...everything, ...limited })
    errors.push(...failures)
    const seconds = (performance.now() - startedMs) / 1_000
    const times = payments.map(({ sentMs, respondedMs }) => respondedMs - sentMs)
    const metric = await readMetrics(service)
    const memory = memoryOf(metric)
    const sample = {
      minute: (i * SAMPLE_SECONDS) / 60,
      'RSS MiB': memory.residentMib,
      'heap MiB': memory.heapMib,
      'ext. MiB': memory.externalMib,
      // Covers the time since the last scrape: this half minute.
      'loop p99 ms': metric('nodejs_eventloop_lag_p99_seconds') * 1000,
      handles: metric('nodejs_active_handles_total'),
      'conn.': metric('inflow_connections'),
      'db conn.': metric('inflow_db_pool_connections'),
      'payments/s': payments.length / seconds,
      'lookups/s': payments.filter(({ lookedUpMs }) => lookedUpMs > 0).length / seconds,
      'events/s': payments.reduce((sum, { eventsMs }) => sum + eventsMs.length, 0) / seconds,
      'webhooks/s': payments.filter(({ webhooksMs }) => webhooksMs.length > 0).length / seconds,
      'p99 ms': percentile(times, 0.99),
      errors: failures.length,
    }
    const cells = Object.entries(sample).map(([head, value]) =>
      value.toFixed(value < 100 && !Number.isInteger(value) ? 1 : 0).padStart(head.length),
    )
    if (i === 1) bench.log(`  ${Object.keys(sample).join('  ')}`)
    bench.log(`  ${cells.join('  ')}`)
    samples.push(sample)
  }
  const third = Math.floor(count / 3)
  const resident = (name: string, from: number, to?: number) => {
    const figures = samples
      .slice(from, to)
      .map((sample) => ({ value: sample['RSS MiB'] as number }))
    return toFigure(name, figures)
  }
  const rate = `${Math.round(perSecond).toLocaleString('en')} payments/s`
  return [
    {
      what: `resident, ${samples.at(-1)?.['minute']} minutes of ${rate}, last third`,
      unit: ' MiB',
      ours: resident('last third', -third),
      yardstick: resident('second third', -2 * third, -third),
      target: { atMostTimes: 1.05 },
    },
    {
      what: 'errors',
      unit: '',
      ours: toFigure('errors', [{ value: errors.length }]),
      yardstick: undefined,
      target: { atMost: 0 },
      notes: errors[0] === undefined ? [] : [`first error: ${errors[0]}`],
    },
  ]
}
