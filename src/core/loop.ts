import { setImmediate } from 'node:timers/promises'
import type { Logger } from 'pino'
import { backoffMs } from './backoff.ts'
import { withTimeout } from './with-timeout.ts'

/** Work that is done when there is some: on waking, and by itself every so often. */
export interface Loop {
  /** @param afterMs when its first turn is due, in milliseconds; absent: at once */
  start(afterMs?: number): void
  /** There may be work. Waking it many times during one turn makes one more turn. */
  wake(): void
  /** No turn starts any more. @returns when the one under way is over, or after 5 s */
  stop(): Promise<void>
}

interface LoopOptions {
  /** What it does, for the log. */
  readonly name: string
  readonly log: Logger
  /** The longest wait between two turns, in milliseconds; absent: a second. */
  readonly everyMs?: number
  /** For the jitter. */
  readonly random?: () => number
  /**
   * One turn. The signal aborts when the loop is stopped.
   *
   * @returns milliseconds until the next turn is due; 0: there is more to do now; undefined: `everyMs`
   */
  turn(signal: AbortSignal): Promise<number | undefined>
}

/** A wake that was lost costs no more than this. */
const POLL_MS = 1_000

/** The longest wait is shorter by up to this part, so that instances do not keep step. */
const JITTER = 0.2

const BACKOFF_MIN_MS = 100
const BACKOFF_MAX_MS = 5_000
const STOP_MAX_MS = 5_000

/** A turn that throws is logged and repeated, with growing waits. */
export function createLoop(options: LoopOptions): Loop {
  const { name, log, everyMs = POLL_MS, random = Math.random } = options
  const backoff = { minMs: BACKOFF_MIN_MS, maxMs: Math.min(everyMs, BACKOFF_MAX_MS) }
  const stopping = new AbortController()
  const { signal } = stopping
  let woken = false
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
      const waitMs = (await options.turn(signal)) ?? everyMs
      if (failures > 0) log.info({ loop: name, failures }, 'works again')
      failures = 0
      if (woken) return 0
      return waitMs < everyMs ? waitMs : everyMs * (1 - JITTER * random())
    } catch (error) {
      failures += 1
      const waitMs = backoffMs(failures, backoff, random)
      if (!signal.aborted) {
        log.warn({ loop: name, failures, waitMs, err: error }, 'failed, and is tried again')
      }
      return waitMs
    }
  }
  const run = async (afterMs: number): Promise<void> => {
    if (afterMs > 0) await wait(afterMs)
    while (!signal.aborted) {
      woken = false
      const waitMs = await turn()
      if (signal.aborted) return
      if (waitMs > 0) await wait(waitMs)
      else await setImmediate()
    }
  }
  return {
    start(afterMs = 0) {
      running = run(afterMs)
    },
    wake() {
      woken = true
      // While it fails, waking would only make it fail more often.
      if (failures === 0) endWait()
    },
    async stop() {
      stopping.abort()
      endWait()
      await withTimeout(running, STOP_MAX_MS)
    },
  }
}
