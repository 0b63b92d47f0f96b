import type { Pool } from 'pg'
import type { Logger } from 'pino'

/** How many events one tick numbers. */
const ROWS_MAX = 5_000

/** How often a tick runs when nobody asked for one. */
const POLL_MS = 1_000

/** Gives events their place in the log. */
export interface Sequencer {
  start(): void
  /** Own commits added events: tick at once. Calls during a tick come to one more tick. */
  kick(): void
  stop(): Promise<void>
}

interface Options {
  readonly pool: Pool
  readonly log: Logger
  /** Called when a tick has moved the end of the log. */
  readonly advanced: (lastPosition: bigint) => void
}

/**
 * Numbers committed events in an order in which no event precedes its cause, without gaps.
 *
 * Identity values are taken before commit, so a reader that remembers the highest it saw skips rows
 * that commit late. A tick instead takes the rows that are visible in its snapshot and were not in
 * the one before. Any instance may tick; a row lock lets one at a time. The statement is the
 * function `sequence_events` of the first migration.
 */
export function createSequencer({ pool, log, advanced }: Options): Sequencer {
  let running: Promise<void> | undefined
  let wanted = false
  let stopped = true
  let timer: NodeJS.Timeout | undefined

  /** @returns whether there may be more to number right now */
  const tick = async (): Promise<boolean> => {
    const result = await pool.query<{ numbered: number; last_position: string; more: boolean }>({
      name: 'sequence-events',
      text: 'select numbered, last_position, more from sequence_events($1)',
      values: [ROWS_MAX],
    })
    const row = result.rows[0]
    if (row === undefined) throw new Error('sequence_events always returns a row')
    if (row.numbered > 0) advanced(BigInt(row.last_position))
    return row.more
  }
  const run = async (): Promise<void> => {
    try {
      while (wanted && !stopped) {
        wanted = false
        if (await tick()) wanted = true
      }
    } catch (error) {
      log.warn({ err: error }, 'sequencer tick failed; trying again')
    } finally {
      running = undefined
    }
  }
  const kick = (): void => {
    wanted = true
    if (!stopped) running ??= run()
  }
  return {
    start() {
      stopped = false
      timer = setInterval(kick, POLL_MS)
      kick()
    },
    kick,
    async stop() {
      stopped = true
      clearInterval(timer)
      await running
    },
  }
}
