import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import { DAY_MS } from '../core/durations.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { dropPartition, isLocked, LOCKED_MS, listPartitions } from '../postgres/partitions.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { readLogState } from './log-state.ts'
import { readPositionBefore } from './read-log.ts'

/** The most events that one statement archives, and the most statements of one run. */
const ROWS_MAX = 1_000

const STATEMENTS_MAX = 50_000

/** After each statement, retention waits this many times as long as it took, because payments need the disk, too. */
const REST = 3

const REST_MAX_MS = 1_000

/** The interval between runs. */
const EVERY_MS = 600_000

/** The lease of a run, during which no other instance runs. The instance renews it after half of this time. */
const LEASE_MS = 300_000

/** The outbox first, because an event of the log is needed as long as the outbox has its content. */
const TABLES = ['outbox', 'event_log'] as const

interface Options {
  readonly retentionDays: number
  /** The position up to which the webhook deliveries of all events exist. */
  readonly dispatchedUpTo: () => Promise<bigint>
  /** The most events that one statement archives; absent: 1,000. */
  readonly rowsMax?: number
  /** The pause in milliseconds after a run that left a partition because others used it; absent: 10 s. */
  readonly lockedMs?: number
}

/** The result of a run of the retention. */
interface RetentionRun {
  /** The number of events that were archived and may be dropped. Those that moved money got an archived entry. */
  readonly archived: number
  readonly dropped: readonly string[]
  /** Whether the run left a partition because others used it. */
  readonly inUse: boolean
}

/** Drops partitions of old events. */
interface Retention extends Pick<Loop, 'start' | 'stop'> {
  /** Runs once, until done or aborted. */
  run(signal?: AbortSignal): Promise<RetentionRun>
}

/**
 * Events expire when they are older than the retention and have their webhook deliveries. A run first raises the floor, so
 * that a reader gets `expired_cursor` rather than a log with missing events. It then archives the events that moved money,
 * and drops the partitions that are entirely below the floor. It deletes no rows.
 */
export function createRetention(runtime: Runtime, options: Options): Retention {
  const { clock, log } = runtime
  const { durablePool } = runtime.database
  const { rowsMax = ROWS_MAX, lockedMs = LOCKED_MS } = options
  const run = async (signal?: AbortSignal): Promise<RetentionRun> => {
    await raiseFloor(durablePool, await expiredUpTo(runtime, options))
    let archived = 0
    let extendAtMs = clock.now() + LEASE_MS / 2
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const startedMs = performance.now()
      const rows = await archiveEvents(durablePool, rowsMax)
      archived += rows
      if (rows < rowsMax) break
      const nowMs = clock.now()
      if (nowMs >= extendAtMs) {
        await postponeRun(durablePool, nowMs + LEASE_MS)
        extendAtMs = nowMs + LEASE_MS / 2
      }
      const restMs = Math.min(REST * (performance.now() - startedMs), REST_MAX_MS)
      await wait(restMs, undefined, { signal }).catch(() => undefined)
    }
    await deleteOldTicks(durablePool)
    const partitions = signal?.aborted ? NOTHING : await dropPartitions(runtime)
    return { archived, ...partitions }
  }
  const loop = createLoop({
    name: 'event retention',
    log,
    everyMs: EVERY_MS,
    async turn(signal) {
      if (!(await claimRun(durablePool, clock.now(), LEASE_MS))) return undefined
      const { inUse } = await run(signal)
      if (!inUse) return undefined
      await postponeRun(durablePool, clock.now() + lockedMs)
      return lockedMs
    },
  })
  return { start: loop.start, stop: loop.stop, run }
}

/** The position of the last event that is old enough. Times increase with positions. */
async function expiredUpTo(runtime: Runtime, options: Options): Promise<bigint> {
  const { safeClock } = runtime
  const { durablePool } = runtime.database
  const { retentionDays, dispatchedUpTo } = options
  const dispatched = await dispatchedUpTo()
  const { floor, end } = await readLogState(durablePool)
  const last = dispatched < end.position ? dispatched : end.position
  if (last <= floor) return floor
  return readPositionBefore(durablePool, safeClock.now() - retentionDays * DAY_MS, floor, last)
}

const NOTHING: Omit<RetentionRun, 'archived'> = { dropped: [], inUse: false }

async function dropPartitions({
  database: { durablePool },
  log,
}: Runtime): Promise<Omit<RetentionRun, 'archived'>> {
  const dropped: string[] = []
  for (const table of TABLES) {
    for (const { name } of await listPartitions(durablePool, table)) {
      try {
        if (!(await dropPartition(durablePool, table, name))) break
      } catch (error) {
        if (!isLocked(error)) throw error
        log.info({ partition: name }, 'expired events are in use: their partition is dropped later')
        return { dropped, inUse: true }
      }
      log.info({ partition: name }, 'expired events dropped')
      dropped.push(name)
    }
  }
  return { dropped, inUse: false }
}

/**
 * Claims a run, so that one instance at a time does the work.
 *
 * @param leaseMs for this long, no other run can be claimed
 */
export async function claimRun(pool: Pool, nowMs: number, leaseMs: number): Promise<boolean> {
  const { rowCount } = await pool.query(
    'update event_retention set next_run_at = $2 where id = 1 and next_run_at <= $1',
    [new Date(nowMs), new Date(nowMs + leaseMs)],
  )
  return rowCount === 1
}

/** Lets the next run begin at a time, by any instance. */
async function postponeRun(pool: Pool, atMs: number): Promise<void> {
  await pool.query('update event_retention set next_run_at = $1 where id = 1', [new Date(atMs)])
}

/** Raises the floor: readers no longer get events up to this position. */
export async function raiseFloor(pool: Pool, position: bigint): Promise<void> {
  await pool.query('update event_retention set floor = $1 where id = 1 and floor < $1', [position])
}

/**
 * Archives the next events up to the floor: an event that moved money gets an archived entry. From the same commit on,
 * balances and statements read these entries in place of the log.
 *
 * @returns the number of events, including events that moved no money; 0 while another instance archives
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
        from event l cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
        where ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
      ), archived as (
        update event_retention set archived = (select max(position) from event)
        where id = 1 and exists (select from event)
      )
      select count(*)::int as events from event`,
    values: [rowsMax],
  })
  return rows[0]?.events ?? 0
}

/** Deletes the ticks before the tick that shows how far the outbox is archived. */
async function deleteOldTicks(pool: Pool): Promise<void> {
  await pool.query(
    `delete from sequencer_tick where tick < (
        select t.tick from sequencer_tick t, event_retention r
        where r.id = 1 and t.position <= r.archived and t.target is null and t.restored_seq is null
        order by t.tick desc limit 1)`,
  )
}
