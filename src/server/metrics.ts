import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** What a door tells of itself. */
interface MeasuredDoor {
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
export function registerDoorMetrics(
  metrics: Registry,
  doors: Readonly<Record<string, MeasuredDoor>>,
): void {
  new Gauge({
    name: 'inflow_connections',
    help: 'Open connections, by door.',
    labelNames: ['door'],
    registers: [metrics],
    collect() {
      for (const [door, { connections }] of Object.entries(doors)) this.set({ door }, connections())
    },
  })
}
