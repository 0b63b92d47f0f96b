import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { shareResult } from '../core/shared-result.ts'

interface MeasuredServer {
  connections(): number
}

/** Rendering costs as much as hundreds of look-ups, so it is done at most this often. */
export const RENDER_INTERVAL_MS = 1_000

/** Renders metrics at most once a second. */
export function createExposition(metrics: Registry) {
  const read = shareResult(async () => {
    const atMs = performance.now()
    return { value: await metrics.metrics(), atMs }
  }, RENDER_INTERVAL_MS)
  return { contentType: metrics.contentType, metrics: async () => (await read()).value }
}

/** A registry of the format that all metrics of a service have: only OpenMetrics shows exemplars. */
export function createRegistry(openMetrics: boolean): Registry {
  const registry = new Registry()
  // The types of prom-client bind a registry to the format it begins with.
  if (openMetrics) registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never)
  return registry
}

/** The metrics of this process. */
export function createMetrics(openMetrics: boolean): Registry {
  const metrics = createRegistry(openMetrics)
  collectDefaultMetrics({ register: metrics })
  return metrics
}

/** Reports the open connections of each server, and the clock of this machine. */
export function registerServerMetrics(
  metrics: Registry,
  servers: Readonly<Record<string, MeasuredServer>>,
  clock: { offsetMs(): number },
): void {
  new Gauge({
    name: 'inflow_clock_offset_seconds',
    help: "How far this machine's clock is ahead of the database's.",
    registers: [metrics],
    collect() {
      this.set(clock.offsetMs() / 1_000)
    },
  })
  new Gauge({
    name: 'inflow_connections',
    help: 'Open connections, by server.',
    labelNames: ['server'],
    registers: [metrics],
    collect() {
      for (const [server, { connections }] of Object.entries(servers))
        this.set({ server }, connections())
    },
  })
}
