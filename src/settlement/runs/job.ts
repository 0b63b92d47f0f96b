import { createLoop, type Loop } from '../../core/loop.ts'
import {
  advanceSettlements,
  further,
  type Progress,
  type Run,
  settleDue,
  takeUpRequests,
} from './advance-settlements.ts'
import type { SettlementContext } from './run-settlement.ts'
import { WORK_MS } from './settle.ts'

/** Settles by the schedule. */
export interface SettlementJob extends Pick<Loop, 'start' | 'stop'> {
  /**
   * One run, until the signal aborts: ends what was left unfinished, and settles what is due.
   *
   * @throws when a business could not be settled; the others are
   */
  run(signal?: AbortSignal): Promise<void>
}

/** Between runs; what is due meanwhile is looked for as often in a long one. */
const EVERY_MS = 5_000

/**
 * Every instance runs it. A business's row lets one at a time begin, and a settlement's row lets one
 * at a time work at it, so that instances share the work and none of it is done twice.
 */
export function createSettlementJob(context: SettlementContext): SettlementJob {
  const { clock, log } = context
  const run = async (signal?: AbortSignal): Promise<void> => {
    const goOn = () => !signal?.aborted
    const run: Run = { ...context, goOn, whenBusy: 'skip', failed: new Map() }
    let progress: Progress
    do {
      const untilMs = clock.now() + EVERY_MS
      do progress = await advanceSettlements(run)
      while (progress === 'more' && goOn() && clock.now() < untilMs)
      const nowMs = clock.now()
      // The call that made a request works at it for so long.
      progress = further(progress, await takeUpRequests(run, nowMs - WORK_MS))
      progress = further(progress, await settleDue(run, { request: undefined, nowMs }))
    } while (progress === 'more' && goOn())
    if (run.failed.size === 0) return
    const [cause] = run.failed.values()
    throw new Error(`${run.failed.size} books could not be settled`, { cause })
  }
  const loop = createLoop({
    name: 'settlement',
    log,
    everyMs: EVERY_MS,
    turn: async (signal) => void (await run(signal)),
  })
  return { start: loop.start, stop: loop.stop, run }
}
