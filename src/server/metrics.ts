import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** What a door tells of itself. */
interface MeasuredServer {
  connections(): number
}

/** The metrics of this process. */
export function createMetrics(): Registry {
  const metrics = new Registry()
  collectDefaultMetrics({ register: metrics })
  // Of several workers, when the last one began: whoever counts restarts sees each of them.
  const started = metrics.getSingleMetric('process_start_time_seconds')
  if (started) Object.assign(started, { aggregator: 'max' })
  return metrics
}

/** Counts the connections that the doors hold. */
export function registerServerMetrics(
  metrics: Registry,
  doors: Readonly<Record<string, MeasuredServer>>,
): void {
  new Gauge({
    name: 'inflow_connections',
    help: 'Open connections, by server.',
    labelNames: ['server'],
    registers: [metrics],
    collect() {
      for (const [server, { connections }] of Object.entries(doors))
        this.set({ server }, connections())
    },
  })
}
