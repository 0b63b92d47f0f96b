import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'
import type { EndpointContext } from '../endpoints/endpoint-context.ts'
import { lockEnabledEndpoint } from '../endpoints/find-endpoint.ts'
import type { StoredDelivery } from './delivery.ts'
import { noSuchDelivery } from './list-deliveries.ts'
import { findDelivery } from './read-deliveries.ts'
import { makeDue, recoverFailed, recoverWaiting } from './resend-deliveries.ts'

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
  const { orm, pool, clock, onDue } = context
  const found = await findDelivery(pool, deliveryId)
  if (found === undefined) throw noSuchDelivery()
  const { endpointId } = found
  const { business: businessId } = await orm.em
    .fork()
    .transactional((em) => lockEnabledEndpoint(em, endpointId))
  const nowMs = clock.now()
  // Not under the lock above: completing attempts locks deliveries before endpoints.
  await orm.em.fork().transactional(async (em) => {
    if (!(await makeDue(em, found, nowMs))) return
    const details = { endpointId, eventId: found.eventId }
    const action = 'delivery.redeliver'
    await appendAudit(em, actor, { action, targetId: deliveryId, businessId, details })
  })
  onDue()
  const delivery = await findDelivery(pool, deliveryId)
  if (delivery === undefined) throw noSuchDelivery()
  if (delivery.eventId === '') {
    throw new Fault('event_expired', 'The event has expired and cannot be sent again')
  }
  return delivery
}

/**
 * Makes the deliveries due that an endpoint has not acknowledged, in batches: first those that
 * failed, then those that wait for a retry.
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
  const { orm, pool, clock, onDue } = context
  await orm.em.fork().transactional(async (em) => {
    const { business: businessId } = await lockEnabledEndpoint(em, endpointId)
    const details = { since: new Date(sinceMs) }
    const action = 'endpoint.recover'
    await appendAudit(em, actor, { action, targetId: endpointId, businessId, details })
  })
  const nowMs = clock.now()
  const selection = {
    endpointId,
    sinceMs,
    nowMs,
    rowsMax: RECOVER_ROWS_MAX,
  }
  let recovered = 0
  let after: string | undefined = '0'
  for (let i = 0; i < RECOVER_STATEMENTS_MAX && after !== undefined; i++) {
    signal.throwIfAborted()
    const batch: { recovered: number; last: string | undefined } = await recoverFailed(
      pool,
      selection,
      after,
    )
    recovered += batch.recovered
    after = batch.last
    onDue()
  }
  for (let i = 0; i < RECOVER_STATEMENTS_MAX; i++) {
    signal.throwIfAborted()
    const batch = await recoverWaiting(pool, selection)
    recovered += batch.recovered
    onDue()
    if (!batch.more) break
  }
  return recovered
}
