import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { createLoop, type Loop } from '../core/loop.ts'

/** The most events that one tick numbers. */
const ROWS_MAX = 5_000

interface Options {
  readonly pool: Pool
  readonly log: Logger
  /** Called after a tick that appended events to the log. */
  readonly onAdvance: (lastPosition: bigint) => void
}

/**
 * Assigns positions to committed events, without gaps and in an order in which no event precedes
 * its cause.
 *
 * Identity values are assigned before commit, so a reader that stores the highest value it has read
 * misses rows that commit later. A tick instead takes the rows that are visible in its snapshot and
 * were not visible in the previous one. Any instance may tick; a row lock admits one at a time. The
 * SQL function is `sequence_events`, in the migrations.
 */
export function createSequencer({ pool, log, onAdvance }: Options): Loop {
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
      if (row.numbered > 0) onAdvance(BigInt(row.last_position))
      return row.more ? 0 : undefined
    },
  })
}
