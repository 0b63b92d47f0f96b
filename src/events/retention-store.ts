import type { Pool } from 'pg'
import { MOVES_MONEY } from './balance-changes/balance-changes.sql.ts'
import { lookUpOutbox } from './log.sql.ts'

/**
 * Claims a run, so that one instance at a time does the work.
 *
 * @param leaseMs no other run is claimed for so long
 */
export async function claimRun(pool: Pool, nowMs: number, leaseMs: number): Promise<boolean> {
  const { rowCount } = await pool.query(
    'update event_retention set next_run_at = $2 where id = 1 and next_run_at <= $1',
    [new Date(nowMs), new Date(nowMs + leaseMs)],
  )
  return rowCount === 1
}

/** Lets the next run begin at a time, by any instance. */
export async function postponeRun(pool: Pool, atMs: number): Promise<void> {
  await pool.query('update event_retention set next_run_at = $1 where id = 1', [new Date(atMs)])
}

/** Readers no longer get events up to this position. */
export async function raiseFloor(pool: Pool, position: bigint): Promise<void> {
  await pool.query('update event_retention set floor = $1 where id = 1 and floor < $1', [position])
}

/**
 * Archives the next events up to the floor: one that moved money gets an archived entry. In the same
 * commit, the log no longer counts for balances and statements up to there.
 *
 * @returns the number of events, with those that moved no money; 0 also while another instance archives
 */
export async function archiveEvents(pool: Pool, rowsMax: number): Promise<number> {
  const { rows } = await pool.query<{ events: number }>({
    name: 'event-archive',
    text: `with retention as materialized (
        select archived, floor from event_retention where id = 1 for no key update skip locked
      ), event as materialized (
        select * from event_log where position > (select archived from retention)
          and position <= (select floor from retention) order by position limit $1
      ), entry as (
        insert into archived_entry (business_id, live, business_sequence, kind, subject_id,
          occurred_at, logged_at, pending_minor, available_minor, fees_minor)
        select l.business_id, l.live, l.business_sequence, o.kind, o.subject_id, o.occurred_at,
          l.logged_at, o.pending_minor, o.available_minor, o.fees_minor
        from event l ${lookUpOutbox('l.outbox_seq')}
        where ${MOVES_MONEY}
      ), archived as (
        update event_retention set archived = (select max(position) from event)
        where id = 1 and exists (select from event)
      )
      select count(*)::int as events from event`,
    values: [rowsMax],
  })
  return rows[0]?.events ?? 0
}

/** Deletes the ticks from before the one that shows how far the outbox is archived. */
export async function deleteOldTicks(pool: Pool): Promise<void> {
  await pool.query(
    `delete from sequencer_tick where tick < (
        select t.tick from sequencer_tick t, event_retention r
        where r.id = 1 and t.position <= r.archived and t.target is null and t.restored_seq is null
        order by t.tick desc limit 1)`,
  )
}
