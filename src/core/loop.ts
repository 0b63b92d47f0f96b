import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setImmediate } from 'node:timers/promises'
import type { Logger } from 'pino'
import { backoffMs } from './backoff.ts'
import type { Clock } from './clock.ts'
import { withTimeout } from './concurrency.ts'

/** Background work that runs when it is woken, and at a regular interval. */
export interface Loop {
  /** Starts the loop. @param afterMs milliseconds until the first turn; absent: at once */
  start(afterMs?: number): void
  /** Reports that there may be work. Any number of calls during one turn cause one more turn. */
  wake(): void
  /** Starts no further turn. Resolves when the current turn has ended, or after 5 s. */
  stop(): Promise<void>
}

interface LoopOptions {
  /** The name of the loop in the log. */
  readonly name: string
  readonly log: Logger
  /** The longest wait between two turns, in milliseconds; absent: a second. */
  readonly everyMs?: number
  /** The source of randomness for the jitter. */
  readonly random?: () => number
  /**
   * One turn. The signal aborts when the loop is stopped.
   *
   * @returns milliseconds until the next turn; 0: there is more to do now; undefined: `everyMs`
   */
  turn(signal: AbortSignal): Promise<number | undefined>
}

/** Whether the last turn of a loop failed. */
interface LoopState {
  readonly log: Logger
  readonly loop: string
  readonly fails: boolean
}

/** Publishes a `LoopState` after each turn that fails, and after the first turn that succeeds again. */
const LOOP_STATES = channel('inflow:loop')

/** The longest delay that a lost wake can cause, which is the default of `everyMs`. */
const POLL_MS = 1_000

/** The longest wait is shortened by up to this fraction, so that instances do not synchronize. */
const JITTER = 0.2

const BACKOFF_MIN_MS = 100
const BACKOFF_MAX_MS = 2_000
const STOP_MAX_MS = 5_000

/** Creates a loop. A turn that throws is logged, and repeated with backoff. */
export function createLoop(options: LoopOptions): Loop {
  const { name, log, everyMs = POLL_MS, random = Math.random } = options
  const backoff = { minMs: BACKOFF_MIN_MS, maxMs: Math.min(everyMs, BACKOFF_MAX_MS) }
  const stopping = new AbortController()
  const { signal } = stopping
  let woken = false
  let failures = 0
  let endWait = (): void => {}
  let running: Promise<void> = Promise.resolve()

  const wait = async (ms: number): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    endWait = resolve
    const timer = setTimeout(resolve, ms)
    await promise
    clearTimeout(timer)
  }
  const publish = (fails: boolean): void =>
    LOOP_STATES.publish({ log, loop: name, fails } satisfies LoopState)
  /** @returns milliseconds until the next turn */
  const turn = async (): Promise<number> => {
    try {
      const waitMs = (await options.turn(signal)) ?? everyMs
      if (failures > 0) {
        log.info({ loop: name, failures }, 'loop recovered')
        publish(false)
      }
      failures = 0
      if (woken) return 0
      return waitMs < everyMs ? waitMs : everyMs * (1 - JITTER * random())
    } catch (error) {
      failures += 1
      publish(true)
      const waitMs = backoffMs(failures, backoff, random)
      if (!signal.aborted) {
        log.warn({ loop: name, failures, waitMs, err: error }, 'loop failed: retrying')
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
      // While the loop fails, waking it early would only cause more failures.
      if (failures === 0) endWait()
    },
    async stop() {
      stopping.abort()
      endWait()
      await withTimeout(running, STOP_MAX_MS)
    },
  }
}

/** Tracks the failing loops of a service. */
export interface LoopWatch {
  /** For how long each failing loop has failed, by name. */
  failingMs(): ReadonlyMap<string, number>
  /** Warnings for operators: a line for each loop that has failed for a minute. */
  notes(): readonly string[]
  stop(): void
}

/** Loops are reported after this time, because a restart or failover of the database makes all loops fail for seconds. */
const NOTED_AFTER_MS = 60_000

/** Watches the loops of one service, recognised by their log, because tests start several services in a process. */
export function watchLoops(log: Logger, clock: Clock): LoopWatch {
  const sinceMs = new Map<string, number>()
  const onState = (message: unknown): void => {
    const state = message as LoopState
    if (state.log !== log) return
    if (!state.fails) sinceMs.delete(state.loop)
    else if (!sinceMs.has(state.loop)) sinceMs.set(state.loop, clock.now())
  }
  subscribe(LOOP_STATES.name, onState)
  const failingMs = () => {
    const nowMs = clock.now()
    return new Map([...sinceMs].map(([loop, since]) => [loop, Math.max(0, nowMs - since)]))
  }
  return {
    failingMs,
    notes: () =>
      [...failingMs()]
        .filter(([, ms]) => ms >= NOTED_AFTER_MS)
        .map(([loop, ms]) => failingNote(loop, ms / 1_000)),
    stop: () => void unsubscribe(LOOP_STATES.name, onState),
  }
}

/** The line about a loop that fails. */
export function failingNote(loop: string, seconds: number): string {
  return `background work has failed for ${Math.round(seconds)} s: ${loop}`
}
