import { constants } from 'node:os'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Ends this process at a signal as it would end by itself, so that a database that it started goes
 * along: by a signal that nobody handles it would end at once, and leave that running.
 *
 * @returns undoes it, for who handles signals from then on
 */
export function exitOnSignals(): () => void {
  const exit = (signal: NodeJS.Signals) => process.exit(128 + constants.signals[signal])
  for (const signal of SIGNALS) process.once(signal, exit)
  return () => {
    for (const signal of SIGNALS) process.off(signal, exit)
  }
}
