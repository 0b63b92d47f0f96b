import { createLoop, type Loop } from '../core/loop.ts'
import { awaitNumbers } from '../events/business-sequences.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { createSettlementRpc, type PayoutsOfSettlements } from './rpc.ts'
import {
  advanceSettlements,
  leastProgress,
  type Progress,
  type Run,
  resumeRequests,
  settleDue,
} from './runs/advance-settlements.ts'
import type { SettlementContext } from './runs/run-settlement.ts'
import { CALL_MAX_MS } from './runs/settle.ts'
import type { BalanceKey } from './settlement.ts'
import { followPayments, sweepDue } from './sweep-due.ts'
import { createFindCalendar, readCalendars } from './terms.ts'

/** The maximum number of concurrent settlement transactions of one instance. */
const CONCURRENCY_MAX = 4

/** The settlement service: its RPCs and the job that settles by the schedule. */
export function createSettlements(runtime: Runtime, payouts: PayoutsOfSettlements) {
  const { database, clock } = runtime
  const context = {
    ...runtime,
    semaphore: createSemaphore(CONCURRENCY_MAX),
    awaitNumbers: (key: BalanceKey, signal: AbortSignal) =>
      awaitNumbers(database.durablePool, key, signal),
  }
  const job = createSettlementJob(context)
  const findCalendar = createFindCalendar(database.durablePool, clock)
  return {
    rpc: createSettlementRpc(context, payouts),
    start: job.start,
    stop: job.stop,
    /** Returns for each business a function from the time when a payment was recorded to the time when it is settled. */
    settlesAtOf: async (businessIds: ReadonlySet<string>) => {
      const [only, ...others] = businessIds
      if (only !== undefined && others.length === 0) {
        const { settledBy } = await findCalendar(only)
        return () => settledBy
      }
      const termsOf = await readCalendars(database.durablePool, businessIds)
      const calendars = new Map([...businessIds].map((id) => [id, termsOf(id).calendar]))
      return (businessId: string) => calendars.get(businessId)?.settledBy
    },
  }
}

/** Settles payments by the schedule. */
interface SettlementJob extends Pick<Loop, 'start' | 'stop'> {
  /**
   * One run, until the signal aborts: completes unfinished settlements and settles due balances.
   *
   * @throws if a balance could not be settled; the other balances are settled anyway
   */
  run(signal?: AbortSignal): Promise<void>
}

/** The interval between runs. A long run also looks for newly due payments at this interval. */
const EVERY_MS = 5_000

/**
 * Every instance runs this job. The lock of a balance lets one instance at a time start a
 * settlement, and the row lock of a settlement lets one instance at a time process it. So instances
 * share the work, and no work is done twice.
 */
export function createSettlementJob(context: SettlementContext): SettlementJob {
  const { clock, log } = context
  const run = async (signal?: AbortSignal): Promise<void> => {
    const shouldContinue = () => !signal?.aborted
    const run: Run = { ...context, shouldContinue, onLocked: 'skip', failed: new Map() }
    let progress: Progress
    do {
      const untilMs = clock.now() + EVERY_MS
      await followPayments(run)
      await sweepDue(run)
      do progress = await advanceSettlements(run)
      while (progress === 'more' && shouldContinue() && clock.now() < untilMs)
      const nowMs = clock.now()
      // The call that made a younger request may still be processing it.
      progress = leastProgress(progress, await resumeRequests(run, nowMs - CALL_MAX_MS))
      progress = leastProgress(progress, await settleDue(run, nowMs + EVERY_MS))
    } while (progress === 'more' && shouldContinue())
    if (run.failed.size === 0) return
    const [cause] = run.failed.values()
    throw new Error(`${run.failed.size} balances could not be settled`, { cause })
  }
  const loop = createLoop({
    name: 'settlement',
    log,
    everyMs: EVERY_MS,
    turn: async (signal) => void (await run(signal)),
  })
  return { start: loop.start, stop: loop.stop, run }
}
