import { randomBytes } from 'node:crypto'
import { create, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Pool } from 'pg'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { tamper } from './database.ts'

/** Writes events into the outbox, as a use case does, in one commit. @returns their ids */
export async function writeEvents(
  pool: Pool,
  count: number,
  { businessId = 'biz_test', kind = 'ACCOUNT_CREATED', live = true } = {},
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => `evt_${randomBytes(8).toString('hex')}`)
  const payloads = ids.map((id) => {
    const event = create(EventSchema, {
      id,
      businessId,
      kind,
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

/** Removes the last events, as a failover to a standby that lags does. */
export async function loseEvents(pool: Pool, ids: readonly string[]): Promise<void> {
  await tamper(
    pool,
    `with lost as (delete from event_log where event_id = any($1) returning *),
        unwritten as (delete from outbox where event_id = any($1))
      update sequencer set position = position - (select count(*) from lost)`,
    [ids],
  )
  await pool.query(
    `update event_business_counter c set last_sequence = coalesce(
        (select max(business_sequence) from event_log l
        where l.business_id = c.business_id and l.live = c.live), last_sequence)`,
  )
}

/** Makes the next tick find another timeline, as after the promotion of a standby. */
export async function beginTimeline(pool: Pool): Promise<void> {
  await pool.query('update sequencer set timeline = timeline - 1')
}

/** Deletes the oldest events, up to a position, as retention does. */
export async function expireEvents(pool: Pool, upTo: bigint): Promise<void> {
  await tamper(pool, 'update sequencer set floor = $1', [upTo])
  await tamper(
    pool,
    `with expired as (delete from event_log where position <= $1 returning outbox_seq)
      delete from outbox where seq in (select outbox_seq from expired)`,
    [upTo],
  )
}
