import { randomBytes } from 'node:crypto'
import { create, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Pool, PoolClient } from 'pg'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { createRetention } from '../../src/events/retention.ts'
import { cutPartition, listPartitions } from '../../src/postgres/partitions.ts'
import { tamper, tampering } from './database.ts'
import { createTestRuntime } from './runtime.ts'

/** Writes events into the outbox, as a use case does, in one commit. @returns their ids */
export async function writeEvents(
  pool: Pick<Pool, 'query'>,
  count: number,
  { businessId = 'biz_test', kind = 'ACCOUNT_CREATED', live = true, traceparent = '' } = {},
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => `evt_${randomBytes(8).toString('hex')}`)
  const payloads = ids.map((id) => {
    const event = create(EventSchema, {
      id,
      businessId,
      kind,
      traceparent,
      occurredAt: timestampFromMs(Date.now()),
      payload: { case: 'account', value: { id: `acc_${id}`, businessId } },
    })
    return `\\x${Buffer.from(toBinary(EventSchema, event)).toString('hex')}`
  })
  await pool.query(
    `insert into outbox
        (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
      select id, $2, $5, $3, now(), payload::bytea, 'txn_test', ($3 = 'PAYMENT_NOTIFICATION')::int
      from unnest($1::text[], $4::text[]) with ordinality as e(id, payload, at) order by at`,
    [ids, businessId, kind, payloads, live],
  )
  return ids
}

/** Sequences all committed events. */
export async function sequence(pool: Pool): Promise<void> {
  for (;;) {
    const { rows } = await pool.query('select more from sequence_events(5000)')
    if (rows[0].more === false) return
  }
}

/** Writes events, and numbers all that are committed. @returns the ids of the written ones */
export async function publishEvents(
  pool: Pool,
  ...written: [count: number, event?: Parameters<typeof writeEvents>[2]]
): Promise<string[]> {
  const ids = await writeEvents(pool, ...written)
  await sequence(pool)
  return ids
}

/** Runs the retention of a day, two days later. @param upTo the last position that has its deliveries */
export function runRetention(durablePool: Pool, upTo: bigint) {
  const clock = { now: () => Date.now() + 2 * DAY_MS }
  const bounds = { retentionDays: 1, dispatchedUpTo: async () => upTo }
  return createRetention(createTestRuntime({ durablePool }, { clock }), bounds).run()
}

/** Removes the last events, like a restore that begins no new timeline. */
export async function loseEvents(pool: Pool, ids: readonly string[]): Promise<void> {
  await tampering(pool, (client) => lose(client, ids))
}

/** Removes the last events and begins a new timeline, like the promotion of a lagging standby. */
export async function failOver(pool: Pool, lost: readonly string[]): Promise<void> {
  await tampering(pool, async (client) => {
    await lose(client, lost)
    await client.query(changingSequencer(OTHER_TIMELINE))
  })
}

async function lose(client: PoolClient, ids: readonly string[]): Promise<void> {
  // No tick runs meanwhile.
  await client.query('select pg_advisory_xact_lock(4736353)')
  await client.query(
    `with lost as (delete from event_log where event_id = any($1) returning *),
        unwritten as (delete from outbox where event_id = any($1))
      update sequencer_tick set position = position - (select count(*) from lost)
      where tick = (select tick from sequencer)`,
    [ids],
  )
  await client.query(
    `with kept as (
        select business_id, live, max(business_sequence) as last from event_log group by 1, 2
      ), newest as (
        select business_id, live, max(last_sequence) as last from event_business_counter group by 1, 2
      )
      update event_business_counter c set last_sequence = k.last
      from kept k join newest n using (business_id, live)
      where c.business_id = k.business_id and c.live = k.live and c.last_sequence = n.last
        and n.last > k.last`,
  )
}

/** SQL that makes the next tick find another timeline. */
const OTHER_TIMELINE = 'timeline = timeline - 1'

/** Makes the next tick find another timeline, as after the promotion of a standby. */
export async function beginTimeline(pool: Pool): Promise<void> {
  await changeSequencer(pool, OTHER_TIMELINE)
}

/** Changes the state of the sequencer. @param set SQL: columns and values */
export async function changeSequencer(
  pool: Pool,
  set: string,
  values: readonly unknown[] = [],
): Promise<void> {
  await tamper(pool, changingSequencer(set), values)
}

function changingSequencer(set: string): string {
  return `update sequencer_tick set ${set} where tick = (select tick from sequencer)`
}

/** Ends the current partitions of the outbox and the log after their last rows, if no transaction uses them. */
export async function cutPartitions(pool: Pool): Promise<void> {
  for (const [table, key] of [
    ['outbox', 'seq'],
    ['event_log', 'position'],
  ] as const) {
    const { rows } = await pool.query(`select coalesce(max(${key}), 0) + 1 as next from ${table}`)
    const rest = (await listPartitions(pool, table)).at(-1)
    const cut = { boundary: rows[0].next, suffix: rest?.lower ?? '0' }
    await cutPartition(pool, table, cut).catch((error: unknown) => {
      // Locked, or there is a new row at the boundary.
      if (!['55P03', '40P01', '23514'].includes((error as { code: string }).code)) throw error
    })
  }
}

/** Deletes the oldest events, up to a position, as retention does. */
export async function expireEvents(pool: Pool, upTo: bigint): Promise<void> {
  await tamper(pool, 'update event_retention set floor = $1, archived = $1', [upTo])
  await tamper(
    pool,
    `with expired as (delete from event_log where position <= $1 returning outbox_seq)
      delete from outbox where seq in (select outbox_seq from expired)`,
    [upTo],
  )
}
