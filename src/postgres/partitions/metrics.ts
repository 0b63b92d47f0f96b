import { type LabelledValue, registerSampledGauges } from '../../core/sampled-gauges.ts'
import type { Runtime } from '../runtime.ts'
import { secondsAhead } from './next-cut.ts'
import type { PartitionedTable } from './partitioned-table.ts'
import { readTableState } from './partitions.ts'

/** An empty table has no rate; this is as good as for ever. */
const SECONDS_MAX = 31_536_000

/** Several statements for each table, on what changes in hours. */
const PERIOD_MS = 60_000

/** Registers how long the partitions that are made ahead will last. */
export function registerPartitionMetrics(
  { database: { durablePool }, clock, metrics }: Runtime,
  tables: readonly PartitionedTable[],
): void {
  const read = async (): Promise<readonly LabelledValue[]> => {
    const nowMs = clock.now()
    const values: LabelledValue[] = []
    for (const table of tables) {
      const ahead = secondsAhead(table, await readTableState(durablePool, table, nowMs))
      values.push({ labels: { table: table.table }, value: Math.min(SECONDS_MAX, ahead) })
    }
    return values
  }
  registerSampledGauges(
    metrics,
    read,
    [
      {
        name: 'inflow_partitions_ahead_seconds',
        help: 'How long the partitions made ahead will last at the rate of the last day; at most a year.',
        labelNames: ['table'],
        measure: (values) => values,
      },
    ],
    { periodMs: PERIOD_MS },
  )
}
