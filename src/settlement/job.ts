import type { Logger } from 'pino'
import type { SettlementContext } from './run-settlement.ts'
import { finish, settleWaiting } from './settle.ts'
import { listRunning } from './store.ts'

/** Settles by the schedule. */
export interface SettlementJob {
  start(): void
  /** One run: ends what was left unfinished, and settles what is due. */
  run(): Promise<void>
  /** Waits for the part under way. */
  stop(): Promise<void>
}

interface Options extends SettlementContext {
  readonly log: Logger
}

/** Between runs. */
const EVERY_MS = 5_000

const RUNNING_MAX = 100

/**
 * Every instance runs it. A business's row lets one at a time begin, and a settlement's row lets one
 * at a time work at it, so that instances share the work and none of it is done twice.
 */
export function createSettlementJob(options: Options): SettlementJob {
  const { pool, clock, log } = options
  let running: Promise<void> | undefined
  let stopped = false
  let timer: NodeJS.Timeout | undefined

  const runOnce = async (): Promise<void> => {
    const goOn = () => !stopped
    for (const id of await listRunning(pool, RUNNING_MAX)) {
      if (!(await finish(options, id, goOn))) return
    }
    await settleWaiting(options, { request: undefined, nowMs: clock.now() }, goOn)
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
