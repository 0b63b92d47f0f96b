import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { assert } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { Tracing } from '../tracing/tracing.ts'

/** The most events that one tick numbers. */
export const ROWS_MAX = 5_000

/** How long to wait for the tick of another instance. */
const BUSY_MS = 10

interface Options {
  readonly pool: Pool
  readonly log: Logger
  readonly tracing?: Tracing | undefined
  /** Called after a tick that appended events to the log. */
  readonly onAdvance: (lastPosition: bigint) => void
}

/** The result of a tick. */
interface Tick {
  readonly numbered: number
  readonly last_position: string
  /** Null: another instance ticks. */
  readonly more: boolean | null
  readonly began_epoch: number | null
}

/**
 * Assigns positions to committed events, without gaps and in an order in which no event precedes
 * its cause.
 *
 * Identity values are assigned before commit, so a reader that stores the highest value it has read
 * misses rows that commit later. A tick instead takes the rows that are visible in its snapshot and
 * were not visible in the previous one. Any instance may tick; a row lock admits one at a time.
 * Before it numbers anything, a tick notices a failover or a restore and begins an epoch. The SQL
 * function is `sequence_events`, in the migrations.
 */
export function createSequencer({ pool, log, tracing, onAdvance }: Options): Loop {
  return createLoop({
    name: 'sequencer',
    log,
    async turn() {
      const span = tracing?.start('sequence events')
      const result = await pool.query<Tick>({
        name: 'sequence-events',
        text: 'select numbered, last_position, more, began_epoch from sequence_events($1)',
        values: [ROWS_MAX],
      })
      const [row] = result.rows
      assert(row, 'sequence_events always returns a row')
      if (row.began_epoch !== null) {
        const { began_epoch: epoch, last_position: position } = row
        log.warn(
          { epoch, position },
          'the database failed over or was restored: a new epoch begins',
        )
      }
      if (row.numbered > 0) {
        span?.set({ 'inflow.events': row.numbered })
        span?.end()
      }
      if (row.numbered > 0 || row.began_epoch !== null) onAdvance(BigInt(row.last_position))
      if (row.more === null) return BUSY_MS
      return row.more ? 0 : undefined
    },
  })
}
