import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { awaitNumbers } from '../events/business-sequences.ts'
import type { Database } from '../postgres/orm.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { createSettlementRpc } from './rpc.ts'
import { createSettlementJob } from './runs/job.ts'
import type { BalanceKey } from './settlement.ts'
import { createFindCalendar, readCalendars } from './terms/calendar.ts'

interface SettlementsOptions {
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  readonly tracing?: Tracing | undefined
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/** The maximum number of concurrent settlement transactions of one instance. */
const CONCURRENCY_MAX = 4

/** The settlement service: its RPCs and the job that settles by the schedule. */
export function createSettlements({ database, clock, log, tracing, onCommit }: SettlementsOptions) {
  const context = {
    database,
    clock,
    log,
    tracing,
    onCommit,
    semaphore: createSemaphore(CONCURRENCY_MAX),
    awaitNumbers: (key: BalanceKey, signal: AbortSignal) =>
      awaitNumbers(database.pool, key, signal),
  }
  const job = createSettlementJob(context)
  const findCalendar = createFindCalendar(database.pool, clock)
  return {
    rpc: createSettlementRpc(context),
    start: job.start,
    stop: job.stop,
    /** Returns, for each of some businesses, a function from the time a payment was recorded to when it is settled. */
    settlesAtOf: async (businessIds: ReadonlySet<string>) => {
      const [only, ...others] = businessIds
      if (only !== undefined && others.length === 0) {
        const { settledBy } = await findCalendar(only)
        return () => settledBy
      }
      const termsOf = await readCalendars(database.pool, businessIds)
      const calendars = new Map([...businessIds].map((id) => [id, termsOf(id).calendar]))
      return (businessId: string) => calendars.get(businessId)?.settledBy
    },
  }
}
