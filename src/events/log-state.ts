import type { MikroORM } from '@mikro-orm/postgresql'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import { type Cursor, decodeCursor, encodeCursor } from './cursor.ts'
import { EpochEntity, SequencerEntity } from './event.entity.ts'

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

export async function readLogState(orm: MikroORM): Promise<LogState> {
  const fields = ['epoch', 'position', 'floor'] as const
  const row = await orm.em.fork().findOne(SequencerEntity, { id: 1 }, { fields })
  if (!row) throw new Error('the sequencer row, which the first migration inserts, is missing')
  return { epoch: row.epoch, end: row.position, floor: row.floor }
}

/**
 * Returns the position of a cursor: a reader continues with the next position.
 *
 * @throws Fault invalid_cursor: the text is not a cursor of this service; stale_cursor: the cursor
 * is of another epoch, or beyond the end of the log; expired_cursor: retention deleted the events
 * after it. The last two carry a cursor from which it is safe to resume, as the fact `cursor`.
 */
export async function positionOf(orm: MikroORM, text: string, state: LogState): Promise<bigint> {
  const cursor = decodeCursor(text)
  if (cursor.epoch !== state.epoch || cursor.position > state.end) {
    throw await staleCursor(orm, cursor, state)
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
export async function staleCursor(orm: MikroORM, cursor: Cursor, state: LogState): Promise<Fault> {
  const position = await safePosition(orm, cursor, state)
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
async function safePosition(orm: MikroORM, cursor: Cursor, state: LogState): Promise<bigint> {
  const where = { epoch: { $gt: cursor.epoch } }
  const orderBy = { startPosition: 'asc' } as const
  const [lowestLater] = await orm.em.fork().find(EpochEntity, where, { orderBy, limit: 1 })
  const candidates = [cursor.position, state.end, lowestLater?.startPosition ?? state.end]
  const lowest = candidates.reduce((a, b) => (a < b ? a : b))
  return lowest > state.floor ? lowest : state.floor
}

/**
 * Starts a new epoch, after a restore or a failover that lost commits. Cursors of earlier epochs
 * are refused with a cursor from which it is safe to resume.
 */
export async function bumpEpoch(orm: MikroORM, actor: Actor): Promise<{ readonly epoch: number }> {
  return orm.em.fork().transactional(async (em) => {
    // It reads the whole log once, which may exceed the default statement timeout.
    await em.execute(`set local statement_timeout = '${BUMP_TIMEOUT_MINUTES}min'`)
    const sql = 'select new_epoch as epoch from bump_event_epoch()'
    const [row] = await em.execute<{ epoch: number }[]>(sql)
    assert(row, 'bump_event_epoch always returns a row')
    await appendAudit(em, actor, { action: 'epoch.bump', targetId: `${row.epoch}` })
    return { epoch: row.epoch }
  })
}
