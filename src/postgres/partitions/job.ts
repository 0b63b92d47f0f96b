import { createLoop, type Loop } from '../../core/loop.ts'
import type { Runtime } from '../runtime.ts'
import { nextCut, secondsAhead } from './next-cut.ts'
import type { PartitionedTable } from './partitioned-table.ts'
import { cutPartition, isLocked, LOCKED_MS, readTableState } from './partitions.ts'

/** The first run waits until the service has started. */
const FIRST_MS = 5_000
const EVERY_MS = 60_000

/** The most cuts of one table in one run. */
const CUTS_MAX = 4

/** An operator should hear of a late job while there is still this much ahead. */
export const AHEAD_WARN_SECONDS = 86_400

/** Cuts partitions ahead of time. */
export interface PartitionJob extends Pick<Loop, 'stop'> {
  start(): void
  /** Runs once. @returns the number of cuts, and the tables whose locks it did not get */
  run(): Promise<{ readonly cuts: number; readonly locked: readonly string[] }>
}

/** Any number of instances may run it: `cut_partition` lets one at a time through. */
export function createPartitionJob(
  runtime: Runtime,
  tables: readonly PartitionedTable[],
): PartitionJob {
  const { log } = runtime
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
    // One line, also for the fourteen of a new database.
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
