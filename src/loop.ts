import { setImmediate } from 'node:timers/promises'
import type { Logger } from 'pino'
import { within } from './within.ts'

/** Work that is done when there is some: on waking, and by itself every so often. */
export interface Loop {
  start(): void
  /** There may be work. Waking it many times during one turn makes one more turn. */
  wake(): void
  /** No turn starts any more. @returns when the one under way is over, or after 5 s */
  stop(): Promise<void>
}

interface LoopOptions {
  /** What it does, for the log. */
  readonly name: string
  readonly log: Logger
  /** One turn. @returns milliseconds until the next one is due; 0: there is more to do now */
  turn(): Promise<number>
}

/** The longest wait between turns: a wake that was lost costs no more than this. */
const POLL_MS = 1_000
const BACKOFF_MIN_MS = 100
const BACKOFF_MAX_MS = 5_000
const STOP_MAX_MS = 5_000

/** A turn that throws is logged and repeated, with growing waits. */
export function createLoop(options: LoopOptions): Loop {
  const { name, log } = options
  let woken = false
  let stopped = false
  let failures = 0
  let endWait = (): void => {}
  let running: Promise<void> = Promise.resolve()

  const wait = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      endWait = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  /** @returns milliseconds until the next turn */
  const turn = async (): Promise<number> => {
    try {
      const waitMs = await options.turn()
      if (failures > 0) log.info({ loop: name, failures }, 'works again')
      failures = 0
      return woken ? 0 : Math.min(waitMs, POLL_MS)
    } catch (error) {
      failures += 1
      const waitMs = Math.min(BACKOFF_MIN_MS * 2 ** (failures - 1), BACKOFF_MAX_MS)
      log.warn({ loop: name, failures, waitMs, err: error }, 'failed, and is tried again')
      return waitMs
    }
  }
  const run = async (): Promise<void> => {
    while (!stopped) {
      woken = false
      const waitMs = await turn()
      if (stopped) return
      if (waitMs > 0) await wait(waitMs)
      else await setImmediate()
    }
  }
  return {
    start() {
      running = run()
    },
    wake() {
      woken = true
      // While it fails, waking would only make it fail more often.
      if (failures === 0) endWait()
    },
    async stop() {
      stopped = true
      endWait()
      await within(running, STOP_MAX_MS)
    },
  }
}
