import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { createLoop, type Loop } from '../core/loop.ts'

/** How many events one tick numbers. */
const ROWS_MAX = 5_000

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
export function createSequencer({ pool, log, advanced }: Options): Loop {
  return createLoop({
    name: 'sequencer',
    log,
    async turn() {
      const result = await pool.query<{ numbered: number; last_position: string; more: boolean }>({
        name: 'sequence-events',
        text: 'select numbered, last_position, more from sequence_events($1)',
        values: [ROWS_MAX],
      })
      const row = result.rows[0]
      if (row === undefined) throw new Error('sequence_events always returns a row')
      if (row.numbered > 0) advanced(BigInt(row.last_position))
      return row.more ? 0 : undefined
    },
  })
}
