import pg from 'pg'
import { pino } from 'pino'
import { createRetention } from '../../../src/events/retention.ts'
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

/** One run of the retention, as of two days later. */
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
        const { archived, dropped } = await retention.run()
        return { archived, dropped: dropped.length }
      },
    }
  },
)
