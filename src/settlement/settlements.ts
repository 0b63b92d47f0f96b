import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { Database } from '../postgres/orm.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { createSettlementRpc } from './rpc.ts'
import { createSettlementJob } from './runs/job.ts'
import { createCalendarOf } from './terms/terms.ts'

interface SettlementsOptions {
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/** How many settlements and their parts an instance has under way at once. */
const AT_ONCE_MAX = 2

/** Settlement: its rpcs, and the work that is done by the schedule. */
export function createSettlements({ database, clock, log, onCommit }: SettlementsOptions) {
  const { pool } = database
  const context = { database, pool, clock, log, onCommit, semaphore: createSemaphore(AT_ONCE_MAX) }
  const job = createSettlementJob(context)
  const calendarOf = createCalendarOf(pool, clock)
  return {
    rpc: createSettlementRpc(context),
    start: job.start,
    stop: job.stop,
    /** Tells when payments of a business are due, by when they were recorded. */
    settlesAtOf: async (businessId: string) => (await calendarOf(businessId)).settlesAt,
  }
}
