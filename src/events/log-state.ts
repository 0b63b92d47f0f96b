import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { type Cursor, decodeCursor, encodeCursor } from './cursor.ts'

/** The statement timeout of an epoch bump, which reads the whole log. */
const BUMP_TIMEOUT_MINUTES = 30

/** The current epoch and range of the log. */
export interface LogState {
  /** Incremented after a restore; part of every cursor. */
  readonly epoch: number
  /** The position of the last event; 0 if the log is empty. */
  readonly end: bigint
  /** The position of the last event that retention deleted; 0 if none. */
  readonly floor: bigint
}

export async function readLogState(pool: Pool): Promise<LogState> {
  const result = await pool.query<{ epoch: number; position: string; floor: string }>({
    name: 'event-log-state',
    text: 'select epoch, position, floor from sequencer where id = 1',
  })
  const row = result.rows[0]
  if (row === undefined)
    throw new Error('the sequencer row, which the first migration inserts, is missing')
  return { epoch: row.epoch, end: BigInt(row.position), floor: BigInt(row.floor) }
}

/**
 * Returns the position of a cursor: a reader continues with the next position.
 *
 * @throws Fault invalid_cursor: the text is not a cursor of this service; stale_cursor: the cursor
 * is of another epoch, or beyond the end of the log; expired_cursor: retention deleted the events
 * after it. The last two carry a cursor from which it is safe to resume, as the fact `cursor`.
 */
export async function positionOf(pool: Pool, text: string, state: LogState): Promise<bigint> {
  const cursor = decodeCursor(text)
  if (cursor.epoch !== state.epoch || cursor.position > state.end) {
    throw await staleCursor(pool, cursor, state)
  }
  if (cursor.position < state.floor) {
    const oldest = encodeCursor({ epoch: state.epoch, position: state.floor })
    throw new Fault(
      'expired_cursor',
      'Events after this cursor were deleted; the error details have the oldest valid cursor',
      { facts: { cursor: oldest } },
    )
  }
  return cursor.position
}

/** The fault for a cursor of another epoch, with a cursor from which it is safe to resume. */
export async function staleCursor(pool: Pool, cursor: Cursor, state: LogState): Promise<Fault> {
  const position = await safePosition(pool, cursor, state)
  const resume = encodeCursor({ epoch: state.epoch, position })
  return new Fault(
    'stale_cursor',
    'The event log was restored since this cursor; resume from the cursor in the error details',
    { facts: { cursor: resume } },
  )
}

/**
 * The last position at or before the cursor whose event is the same in the cursor's epoch and in
 * all later ones; at least the floor.
 */
async function safePosition(pool: Pool, cursor: Cursor, state: LogState): Promise<bigint> {
  const result = await pool.query<{ shared: string | null }>({
    name: 'event-epoch-shared',
    text: 'select min(start_position) as shared from event_epoch where epoch > $1',
    values: [cursor.epoch],
  })
  const candidates = [cursor.position, state.end, BigInt(result.rows[0]?.shared ?? state.end)]
  const lowest = candidates.reduce((a, b) => (a < b ? a : b))
  return lowest > state.floor ? lowest : state.floor
}

/**
 * Starts a new epoch, after a restore or a failover that lost commits. Cursors of earlier epochs
 * are refused with a cursor from which it is safe to resume.
 */
export async function bumpEpoch(pool: Pool, actor: Actor): Promise<{ readonly epoch: number }> {
  return inTransaction(pool, async (client) => {
    // It reads the whole log once, which may exceed the default statement timeout.
    await client.query(`set local statement_timeout = '${BUMP_TIMEOUT_MINUTES}min'`)
    const sql = 'select new_epoch from bump_event_epoch()'
    const { rows } = await client.query<{ new_epoch: number }>(sql)
    const [row] = rows
    assert(row, 'bump_event_epoch always returns a row')
    const targetId = `${row.new_epoch}`
    await appendAudit(client, actor, { action: 'epoch.bump', targetId })
    return { epoch: row.new_epoch }
  })
}
