import { createLoop } from '../core/loop.ts'
import { type LabelledValue, registerSampledGauges } from '../core/sampled-gauges.ts'
import { nextCut, secondsAhead } from './next-cut.ts'
import {
  cutPartition,
  isLocked,
  LOCKED_MS,
  type PartitionedTable,
  readTableState,
} from './partitions.ts'
import type { Runtime } from './runtime.ts'

/** The delay of the first run, so that it does not slow the start of the service. */
const FIRST_MS = 5_000
const EVERY_MS = 60_000

/** The most cuts of one table in one run. */
const CUTS_MAX = 4

/** A warning is logged if the partitions ahead will last for less than this time. */
export const AHEAD_WARN_SECONDS = 86_400

/**
 * Creates the job that cuts partitions ahead of time. Any number of instances may run it: `cut_partition` lets one instance
 * at a time cut.
 */
export function createPartitionJob(runtime: Runtime, tables: readonly PartitionedTable[]) {
  const { log } = runtime
  /** Runs once. @returns the number of cuts, and the tables whose locks it did not get */
  const run = async () => {
    const locked: string[] = []
    const cuts: Record<string, number> = {}
    for (const table of tables) {
      try {
        const made = await cutAhead(runtime, table)
        if (made > 0) cuts[table.table] = made
      } catch (error) {
        if (!isLocked(error)) throw error
        locked.push(table.table)
        await warnIfLate(runtime, table)
      }
    }
    // One line for all cuts, of which a new database needs fourteen.
    if (Object.keys(cuts).length > 0) log.info({ tables: cuts }, 'partitions cut')
    return { cuts: Object.values(cuts).reduce((sum, made) => sum + made, 0), locked }
  }
  const loop = createLoop({
    name: 'partitions',
    log,
    everyMs: EVERY_MS,
    turn: async () => ((await run()).locked.length > 0 ? LOCKED_MS : undefined),
  })
  return { start: () => loop.start(FIRST_MS), stop: loop.stop, run }
}

async function cutAhead(
  { database: { durablePool }, clock }: Runtime,
  table: PartitionedTable,
): Promise<number> {
  for (let cuts = 0; cuts < CUTS_MAX; cuts++) {
    const state = await readTableState(durablePool, table, clock.now())
    const cut = nextCut(table, state)
    if (cut === undefined || !(await cutPartition(durablePool, table.table, cut))) return cuts
  }
  return CUTS_MAX
}

async function warnIfLate(
  { database: { durablePool }, clock, log }: Runtime,
  table: PartitionedTable,
): Promise<void> {
  const ahead = secondsAhead(table, await readTableState(durablePool, table, clock.now()))
  if (ahead >= AHEAD_WARN_SECONDS) return
  log.warn(
    { table: table.table, secondsAhead: Math.round(ahead) },
    'no partition is made ahead: a long transaction holds the table',
  )
}

/** The maximum of the metric, a year; an empty table has no rate. */
const SECONDS_MAX = 31_536_000

/** The interval of samples: they take several statements for each table, and change slowly. */
const PERIOD_MS = 60_000

/** Registers a metric of how long the partitions ahead will last. */
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
