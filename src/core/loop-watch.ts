import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Logger } from 'pino'
import type { Clock } from './clock.ts'
import { LOOP_STATES, type LoopState } from './loop.ts'

/** Knows which loops of a service fail. */
export interface LoopWatch {
  /** For how long loops have failed, by their names. A loop that works is left out. */
  failingMs(): ReadonlyMap<string, number>
  /** What an operator should know: a line for each loop that has failed for a minute. */
  notes(): readonly string[]
  stop(): void
}

/** A database that is restarted, or fails over, makes every loop fail for some seconds. */
const NOTED_AFTER_MS = 60_000

/** Watches the loops of one service, which share its log. Tests start several services in a process. */
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
