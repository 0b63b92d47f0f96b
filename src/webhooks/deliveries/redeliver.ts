import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'
import { EndpointEntity } from '../endpoints/endpoint.entity.ts'
import type { EndpointContext } from '../endpoints/endpoint.ts'
import { lockEnabledEndpoint } from '../endpoints/list-endpoints.ts'
import { publishEndpointEvent } from '../endpoints/watch-health.ts'
import type { DeliveryKey, StoredDelivery } from './delivery.ts'
import { findDelivery, noSuchDelivery } from './read-deliveries.ts'

/** Bounds: deliveries recovered per statement, and statements per loop of one call. */
const RECOVER_ROWS_MAX = 5_000

const RECOVER_STATEMENTS_MAX = 10_000

/**
 * Makes a delivery due at once, with the full retry schedule ahead of it.
 *
 * @throws Fault not_found, endpoint_disabled, event_expired
 */
export async function redeliver(
  context: EndpointContext,
  deliveryId: string,
  actor: Actor,
): Promise<StoredDelivery> {
  const { database, clock, onDue } = context
  const { orm, durablePool } = database
  const found = await mustFindDelivery(durablePool, deliveryId)
  const { endpointId } = found
  const { business } = await orm.em
    .fork()
    .transactional((em) => lockEnabledEndpoint(em, endpointId))
  const nowMs = clock.now()
  // Not under the lock above: completing attempts locks deliveries before endpoints.
  await orm.em.fork().transactional(async (em) => {
    if (!(await makeDue(em, found, nowMs))) return
    const details = { endpointId, eventId: found.eventId }
    const action = 'delivery.redeliver'
    const entry = { action, targetId: deliveryId, businessId: business.id, details } as const
    await appendAudit(em, actor, entry)
  })
  onDue()
  const delivery = await mustFindDelivery(durablePool, deliveryId)
  if (delivery.event === null) {
    throw new Fault('event_expired', 'The event has expired and cannot be sent again')
  }
  return delivery
}

/**
 * Makes the deliveries due that an endpoint has not acknowledged, in batches: first failed deliveries, then deliveries
 * that wait for a retry.
 *
 * @param sinceMs deliveries created at this time or later; milliseconds since the Unix epoch
 * @param signal aborts when the caller disconnects
 * @returns the number of deliveries
 * @throws Fault not_found, endpoint_disabled
 */
export async function recover(
  context: EndpointContext,
  endpointId: string,
  sinceMs: number,
  signal: AbortSignal,
  actor: Actor,
): Promise<number> {
  const { database, clock, onDue } = context
  const { orm, durablePool } = database
  await orm.em.fork().transactional(async (em) => {
    const { business } = await lockEnabledEndpoint(em, endpointId)
    await appendAudit(em, actor, {
      action: 'endpoint.recover',
      targetId: endpointId,
      businessId: business.id,
      details: { since: new Date(sinceMs) },
    })
  })
  const nowMs = clock.now()
  const selection = { endpointId, sinceMs, nowMs, rowsMax: RECOVER_ROWS_MAX }
  let recovered = 0
  let after: string | undefined = '0'
  for (let i = 0; i < RECOVER_STATEMENTS_MAX && after !== undefined; i++) {
    signal.throwIfAborted()
    const batch: { recovered: number; last: string | undefined } = await recoverFailed(
      durablePool,
      selection,
      after,
    )
    recovered += batch.recovered
    after = batch.last
    onDue()
  }
  for (let i = 0; i < RECOVER_STATEMENTS_MAX; i++) {
    signal.throwIfAborted()
    const batch = await recoverWaiting(durablePool, selection)
    recovered += batch.recovered
    onDue()
    if (!batch.more) break
  }
  return recovered
}

/** Which deliveries of an endpoint are sent again, and how many per statement. */
interface Selection {
  readonly endpointId: string
  /** When they become due. Milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** Only deliveries created at this time or later. */
  readonly sinceMs: number
  readonly rowsMax: number
}

/**
 * Makes a delivery due in any state, if its event is kept, and restarts its retry schedule. Raising the fence ends any
 * claim. A delivery that waits for a retry has no attempt in progress.
 *
 * `ordered_from` moves back before the delivery, always to another value. This includes endpoints that are not ordered,
 * because the endpoint may become ordered in the meantime, which locks its row.
 *
 * @returns whether the delivery was made due
 */
async function makeDue(
  em: EntityManager,
  { id, position }: DeliveryKey,
  nowMs: number,
): Promise<boolean> {
  const now = new Date(nowMs)
  const updated = await em.execute<{ endpoint_id: string }[]>(
    `update webhook_delivery d set state = 'PENDING', due_at = ?, completed_at = null, failure = null,
          schedule_from = attempts, leased_until = null, claims = d.claims + 1
      where d.id = ? and d.position = ? and (d.state <> 'PENDING'
          or d.due_at > ? and (d.leased_until is null or d.leased_until <= ?))
        and exists (select from event_log l join outbox o on o.seq = l.outbox_seq
          where l.position = d.position)
      returning d.endpoint_id`,
    [now, id, position, now, now],
  )
  const endpointId = updated[0]?.endpoint_id
  if (endpointId === undefined) return false
  await em.execute(
    'update webhook_endpoint set ordered_from = least(ordered_from, ?::int8) - 1 where id = ?',
    [position, endpointId],
  )
  return true
}

/**
 * Makes the next failed deliveries due.
 *
 * @param after the position to continue after; '0' at first
 * @returns the number made due, and the position to continue after; undefined at the end
 */
async function recoverFailed(
  pool: Pool,
  selection: Selection,
  after: string,
): Promise<{ recovered: number; last: string | undefined }> {
  const result = await pool.query<{ recovered: number; scanned: number; last: string | null }>({
    name: 'webhook-recover-failed',
    text: `with page as (
        select id, position from webhook_delivery
        where endpoint_id = $1 and state = 'FAILED' and position > $4 and created_at >= $3
        order by position limit $5
      ), made_due as (
        update webhook_delivery d set state = 'PENDING', due_at = $2, completed_at = null, failure = null,
          schedule_from = attempts, leased_until = null, claims = d.claims + 1
        where d.id = any(array(select id from page))
          and d.position between (select min(position) from page) and (select max(position) from page)
          and d.state = 'FAILED' and exists (select from event_log l join outbox o on o.seq = l.outbox_seq
            where l.position = d.position)
        returning d.position
      ), lowered as (
        update webhook_endpoint e set ordered_from = least(e.ordered_from, again.first) - 1
        from (select min(position) as first from made_due) again
        where e.id = $1 and again.first is not null
      )
      select (select count(*)::int from made_due) as recovered,
        (select count(*)::int from page) as scanned, (select max(position) from page) as last`,
    values: [
      selection.endpointId,
      new Date(selection.nowMs),
      new Date(selection.sinceMs),
      after,
      selection.rowsMax,
    ],
  })
  const { recovered = 0, scanned = 0, last = null } = result.rows[0] ?? {}
  return { recovered, last: scanned < selection.rowsMax ? undefined : (last ?? undefined) }
}

/**
 * Makes the next deliveries due that wait for a retry. Each call finds other deliveries, because a delivery that is due no
 * longer waits. A delivery that was attempted since `nowMs` is left alone: otherwise it would be sent, and counted, again
 * after each failure. A delivery that was claimed in the meantime is scanned, but not made due.
 *
 * @returns the number made due, and whether there may be more
 */
async function recoverWaiting(
  pool: Pool,
  selection: Selection,
): Promise<{ recovered: number; more: boolean }> {
  const result = await pool.query<{ recovered: number; scanned: number }>({
    name: 'webhook-recover-waiting',
    text: `with page as (
        select id, position from webhook_delivery d
        where endpoint_id = $1 and state = 'PENDING' and d.due_at > $2
          and (d.leased_until is null or d.leased_until <= $2)
          and (d.started_at is null or d.started_at < $2) and created_at >= $3
        order by due_at limit $4
      ), made_due as (
        update webhook_delivery d set state = 'PENDING', due_at = $2, completed_at = null, failure = null,
          schedule_from = attempts, leased_until = null, claims = d.claims + 1
        where d.id = any(array(select id from page))
          and d.position between (select min(position) from page) and (select max(position) from page)
          and d.state = 'PENDING' and d.due_at > $2 and (d.leased_until is null or d.leased_until <= $2)
          and (d.started_at is null or d.started_at < $2)
        returning 1
      )
      select (select count(*)::int from made_due) as recovered,
        (select count(*)::int from page) as scanned`,
    values: [
      selection.endpointId,
      new Date(selection.nowMs),
      new Date(selection.sinceMs),
      selection.rowsMax,
    ],
  })
  const { recovered = 0, scanned = 0 } = result.rows[0] ?? {}
  return { recovered, more: scanned === selection.rowsMax }
}

/**
 * Ends a pending delivery, so that the next events of an ordered endpoint are sent. Raising the fence ends
 * any claim: the outcome of an attempt in progress is not recorded.
 *
 * @throws Fault not_found, delivery_completed
 */
export async function skipDelivery(
  context: EndpointContext,
  deliveryId: string,
  actor: Actor,
): Promise<StoredDelivery> {
  const { database, clock, onDue } = context
  const { orm, durablePool } = database
  const found = await mustFindDelivery(durablePool, deliveryId)
  const { endpointId, eventId, position } = found
  await orm.em.fork().transactional(async (em) => {
    const skipped = await em.execute<{ id: string }[]>(
      `update webhook_delivery set state = 'FAILED', completed_at = ?, failure = 'skipped',
          leased_until = null, claims = claims + 1
        where id = ? and position = ? and state = 'PENDING' returning id`,
      [new Date(clock.now()), deliveryId, position],
    )
    if (skipped.length === 0) {
      throw new Fault('delivery_completed', 'The delivery is completed already')
    }
    const endpoint = await em.findOneOrFail(EndpointEntity, endpointId, { fields: ['business'] })
    await appendAudit(em, actor, {
      action: 'delivery.skip',
      targetId: deliveryId,
      businessId: endpoint.business.id,
      details: { endpointId, eventId },
    })
  })
  onDue()
  return mustFindDelivery(durablePool, deliveryId)
}

/** @throws Fault not_found */
async function mustFindDelivery(pool: Pool, id: string): Promise<StoredDelivery> {
  const delivery = await findDelivery(pool, id)
  if (delivery === undefined) throw noSuchDelivery()
  return delivery
}

/**
 * Records a test event, which is sent to this endpoint only.
 *
 * @returns the event's id
 * @throws Fault not_found, endpoint_disabled
 */
export async function sendTestEvent(
  { database: { orm }, clock, onCommit }: EndpointContext,
  endpointId: string,
  actor: Actor,
): Promise<string> {
  const eventId = await orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEnabledEndpoint(em, endpointId)
    const id = await publishEndpointEvent(em, 'ENDPOINT_TEST', endpoint, clock.now())
    await appendAudit(em, actor, {
      action: 'endpoint.test',
      targetId: endpointId,
      businessId: endpoint.business.id,
      details: { eventId: id },
    })
    return id
  })
  onCommit()
  return eventId
}
