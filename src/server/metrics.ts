import { Gauge, type Registry } from 'prom-client'

/** What a door tells of itself. */
interface MeasuredDoor {
  connections(): number
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
