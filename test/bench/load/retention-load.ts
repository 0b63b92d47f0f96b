import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { pino } from 'pino'
import { createRetention } from '../../../src/events/retention.ts'
import { LOCKED_MS } from '../../../src/postgres/partitions/partitions.ts'
import { childProcessMain } from '../child-process-main.ts'

export interface RetentionLoadOptions {
  readonly databaseUrl: string
  /** The first events, all of which expire. */
  readonly events: number
}

export interface RetentionLoadResult {
  readonly archived: number
  /** How many partitions. */
  readonly dropped: number
}

const DAY_MS = 86_400_000

const RUNS_MAX = 60

/** Runs the retention as of two days later, again while partitions are in use. */
childProcessMain<RetentionLoadOptions, undefined, null, RetentionLoadResult>(
  async ({ databaseUrl, events }) => {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
    const retention = createRetention({
      ...{ pool, log: pino({ enabled: false }), retentionDays: 1 },
      clock: { now: () => Date.now() + 2 * DAY_MS },
      dispatchedUpTo: async () => BigInt(events),
    })
    return {
      ready: undefined,
      async run() {
        let archived = 0
        let dropped = 0
        for (let runs = 1; runs <= RUNS_MAX; runs++) {
          const run = await retention.run()
          archived += run.archived
          dropped += run.dropped.length
          if (!run.inUse) break
          await setTimeout(LOCKED_MS)
        }
        return { archived, dropped }
      },
    }
  },
)
