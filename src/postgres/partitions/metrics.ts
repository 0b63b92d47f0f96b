import type { Pool } from 'pg'
import { Gauge, type Registry } from 'prom-client'
import type { Clock } from '../../core/clock.ts'
import { secondsAhead } from './next-cut.ts'
import type { PartitionedTable } from './partitioned-table.ts'
import { readTableState } from './partitions.ts'

/** An empty table has no rate; this is as good as for ever. */
const SECONDS_MAX = 31_536_000

/** Registers how long the partitions that are made ahead will last. Read at each scrape. */
export function registerPartitionMetrics(
  common: Registry,
  pool: Pool,
  clock: Clock,
  tables: readonly PartitionedTable[],
): void {
  new Gauge({
    name: 'inflow_partitions_ahead_seconds',
    help: 'How long the partitions made ahead will last at the rate of the last day; at most a year.',
    labelNames: ['table'],
    registers: [common],
    async collect() {
      const nowMs = clock.now()
      for (const table of tables) {
        // If the database is unavailable, the other metrics still work.
        const state = await readTableState(pool, table, nowMs).catch(() => undefined)
        if (state === undefined) return
        this.set({ table: table.table }, Math.min(SECONDS_MAX, secondsAhead(table, state)))
      }
    },
  })
}
