import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { type Cursor, decodeCursor, encodeCursor } from './cursor.ts'

/** A bump of the epoch reads the whole log. */
const BUMP_MINUTES_MAX = 30

/** Where the log begins and ends. */
export interface LogState {
  /** Raised after a restore; part of every cursor. */
  readonly epoch: number
  /** The last position given; 0 while the log is empty. */
  readonly end: bigint
  /** The last position that was deleted for its age. */
  readonly floor: bigint
}

export async function readLogState(pool: Pool): Promise<LogState> {
  const result = await pool.query<{ epoch: number; position: string; floor: string }>({
    name: 'event-log-state',
    text: 'select epoch, position, floor from sequencer where id = 1',
  })
  const row = result.rows[0]
  if (row === undefined) throw new Error('the sequencer has its row from the first migration on')
  return { epoch: row.epoch, end: BigInt(row.position), floor: BigInt(row.floor) }
}

/**
 * The position after which a cursor goes on.
 *
 * @throws Fault invalid_cursor: not one of ours; stale_cursor: of an epoch before a restore, or of
 * another log; expired_cursor: what follows it was deleted. The last two carry, as the fact
 * `cursor`, the place where it is safe to go on.
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
      'Events after this cursor were deleted for their age; the oldest cursor is in the details',
      { facts: { cursor: oldest } },
    )
  }
  return cursor.position
}

/** The fault of a cursor of another epoch, with the place where it is safe to go on. */
export async function staleCursor(pool: Pool, cursor: Cursor, state: LogState): Promise<Fault> {
  const position = await safePosition(pool, cursor, state)
  const resume = encodeCursor({ epoch: state.epoch, position })
  return new Fault(
    'stale_cursor',
    'The event log was restored since this cursor was made; go on at the cursor in the details',
    { facts: { cursor: resume } },
  )
}

/** The last position that the cursor's epoch and all later ones have in common. */
async function safePosition(pool: Pool, cursor: Cursor, state: LogState): Promise<bigint> {
  const result = await pool.query<{ shared: string | null }>({
    name: 'event-epoch-shared',
    text: 'select min(start_position) as shared from event_epoch where epoch > $1',
    values: [cursor.epoch],
  })
  const places = [cursor.position, state.end, BigInt(result.rows[0]?.shared ?? state.end)]
  const lowest = places.reduce((a, b) => (a < b ? a : b))
  return lowest > state.floor ? lowest : state.floor
}

/**
 * Starts a new epoch: for after a restore or a failover that lost commits. Cursors of the old one
 * are refused with a safe place to go on.
 */
export async function bumpEpoch(pool: Pool, actor: Actor): Promise<{ readonly epoch: number }> {
  return inTransaction(pool, async (client) => {
    // It goes through the whole log once, which may take longer than a statement should.
    await client.query(`set local statement_timeout = '${BUMP_MINUTES_MAX}min'`)
    const sql = 'select new_epoch from bump_event_epoch()'
    const { rows } = await client.query<{ new_epoch: number }>(sql)
    const [row] = rows
    assert(row, 'bump_event_epoch always returns a row')
    const targetId = `${row.new_epoch}`
    await appendAudit(client, actor, { action: 'epoch.bump', targetId })
    return { epoch: row.new_epoch }
  })
}
