import { AggregatorRegistry, Registry } from 'prom-client'
import type { Exemplar, Metric, MetricValue, WorkerMetrics } from './messages.ts'

/** Aggregates the metrics of all workers. */
export interface MetricsAggregator {
  /** The metrics of each worker that responds in time, and the counts of those that did not. */
  collect(): Promise<readonly WorkerMetrics[]>
  /** A worker reported its metrics. */
  onReport(worker: number, id: number, metrics: WorkerMetrics): void
  /** A worker has ended. */
  onExit(worker: number): void
}

interface Options {
  /** The numbers of the running workers. */
  readonly workers: () => readonly number[]
  /** Asks a worker for its metrics. */
  readonly request: (worker: number, id: number) => void
  /** How long to wait for the workers' reports. */
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 1_000

/** One collection that waits for reports. */
interface Collection {
  readonly id: number
  readonly waiting: Set<number>
  readonly reports: WorkerMetrics[]
  readonly finish: () => void
}

/**
 * A counter may fall only when the service restarts: Prometheus takes any fall for a restart, and
 * would count everything twice. So the last counts of a worker that does not respond, or has ended,
 * stay in the sums.
 */
export function createMetricsAggregator({
  workers,
  request,
  timeoutMs = TIMEOUT_MS,
}: Options): MetricsAggregator {
  const last = new Map<number, WorkerMetrics>()
  let ended: readonly WorkerMetrics[] = []
  let pending: Collection | undefined
  let inProgress: Promise<readonly WorkerMetrics[]> | undefined
  let ids = 0

  const requestAll = (): Promise<Collection> =>
    new Promise((resolve) => {
      ids += 1
      const finish = (): void => {
        clearTimeout(timer)
        pending = undefined
        resolve(collection)
      }
      const collection: Collection = { id: ids, waiting: new Set(workers()), reports: [], finish }
      const timer = setTimeout(finish, timeoutMs)
      pending = collection
      for (const worker of collection.waiting) request(worker, collection.id)
      if (collection.waiting.size === 0) finish()
    })
  const collect = async (): Promise<readonly WorkerMetrics[]> => {
    const { reports, waiting } = await requestAll()
    const silent = [...waiting].flatMap((worker) => last.get(worker) ?? []).filter(isCount)
    const before = ended
    ended = []
    // A worker may end meanwhile.
    ended = [...(before.length > 1 ? [await sumOf(before)] : before), ...ended]
    return [...reports, silent, ...ended]
  }
  return {
    collect() {
      inProgress ??= collect().finally(() => {
        inProgress = undefined
      })
      return inProgress
    },
    onReport(worker, id, metrics) {
      last.set(worker, metrics)
      if (pending?.id !== id || !pending.waiting.delete(worker)) return
      pending.reports.push(metrics)
      if (pending.waiting.size === 0) pending.finish()
    },
    onExit(worker) {
      const counted = last.get(worker)?.filter(isCount)
      last.delete(worker)
      if (counted) ended = [...ended, counted]
      if (pending?.waiting.delete(worker) && pending.waiting.size === 0) pending.finish()
    },
  }
}

/**
 * The aggregated metrics as text: sums, unless a metric names another aggregator.
 *
 * @param openMetrics whether the text is of that format, with the latest exemplars
 */
export async function expose(
  parts: readonly WorkerMetrics[],
  openMetrics: boolean,
): Promise<string> {
  if (!openMetrics) return AggregatorRegistry.aggregate([...parts]).metrics()
  const sums = AggregatorRegistry.aggregate(parts.map((metrics) => metrics.map(withFamilyName)))
  sums.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never)
  keepExemplars(parts.flat(), (await sums.getMetricsAsJSON()) as unknown as WorkerMetrics)
  return sums.metrics()
}

/** OpenMetrics names a counter without the suffix of its values. */
function withFamilyName(metric: Metric): Metric {
  return metric.type === 'counter'
    ? { ...metric, name: metric.name.replace(/_total$/, '') }
    : metric
}

/** Aggregation leaves exemplars out: each sum gets the latest one of its parts. */
function keepExemplars(parts: readonly Metric[], sums: readonly Metric[]): void {
  const latest = new Map<string, Exemplar>()
  const values = (metrics: readonly Metric[]) =>
    metrics.flatMap((metric) => (metric.type === 'histogram' ? metric.values : []))
  for (const value of values(parts)) {
    const { exemplar } = value
    if (!exemplar) continue
    const known = latest.get(seriesOf(value))
    if (known === undefined || known.timestamp < exemplar.timestamp)
      latest.set(seriesOf(value), exemplar)
  }
  for (const sum of values(sums)) sum.exemplar = latest.get(seriesOf(sum)) ?? null
}

function seriesOf({ metricName, labels }: MetricValue): string {
  return `${metricName} ${JSON.stringify(Object.entries(labels).sort())}`
}

async function sumOf(parts: readonly WorkerMetrics[]): Promise<WorkerMetrics> {
  const metrics: unknown = await AggregatorRegistry.aggregate([...parts]).getMetricsAsJSON()
  return metrics as WorkerMetrics
}

function isCount({ type }: Metric): boolean {
  return type === 'counter' || type === 'histogram'
}
