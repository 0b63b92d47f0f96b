import type { SettlementContext } from './run-settlement.ts'
import { WORK_MS } from './settle.ts'
import {
  further,
  type Progress,
  type Run,
  settleDue,
  takeTurns,
  takeUpRequests,
} from './settle-books.ts'

/** Settles by the schedule. */
export interface SettlementJob {
  start(): void
  /**
   * One run: ends what was left unfinished, and settles what is due.
   *
   * @throws when a business could not be settled; the others are
   */
  run(): Promise<void>
  /** Waits for the part under way. */
  stop(): Promise<void>
}

/** Between runs; what is due meanwhile is looked for as often in a long one. */
const EVERY_MS = 5_000

/**
 * Every instance runs it. A business's row lets one at a time begin, and a settlement's row lets one
 * at a time work at it, so that instances share the work and none of it is done twice.
 */
export function createSettlementJob(context: SettlementContext): SettlementJob {
  const { clock, log } = context
  let running: Promise<void> | undefined
  let stopped = false
  let timer: NodeJS.Timeout | undefined

  const runOnce = async (): Promise<void> => {
    const goOn = () => !stopped
    const run: Run = { ...context, goOn, whenBusy: 'skip', failed: new Map() }
    let progress: Progress
    do {
      const untilMs = clock.now() + EVERY_MS
      do progress = await takeTurns(run)
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
  const run = (): Promise<void> => {
    running ??= runOnce().finally(() => {
      running = undefined
    })
    return running
  }
  const attempt = (): void => {
    run().catch((error: unknown) => log.warn({ err: error }, 'settling failed; trying again'))
  }
  return {
    start() {
      timer = setInterval(attempt, EVERY_MS)
      attempt()
    },
    run,
    async stop() {
      stopped = true
      clearInterval(timer)
      await running?.catch(() => undefined)
    },
  }
}
