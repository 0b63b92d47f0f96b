import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'
import type { EndpointContext } from '../endpoints/endpoint-context.ts'
import { lockEnabledEndpoint } from '../endpoints/find-endpoint.ts'
import { noSuchDelivery } from './list-deliveries.ts'
import { findDelivery, type StoredDelivery } from './read-deliveries.ts'
import { hastenWaiting, makeDue, recoverFailed } from './resend-deliveries.ts'

/** How many deliveries one statement recovers, and how many statements one call makes. */
const RECOVER_ROWS_MAX = 5_000
const RECOVER_STATEMENTS_MAX = 10_000

/**
 * Makes a delivery due, with the whole schedule of retries before it.
 *
 * @throws Fault not_found, endpoint_disabled, event_expired
 */
export async function redeliver(
  context: EndpointContext,
  deliveryId: string,
  actor: Actor,
): Promise<StoredDelivery> {
  const { orm, pool, clock, due } = context
  const found = await findDelivery(pool, deliveryId)
  if (found === undefined) throw noSuchDelivery()
  const { endpointId } = found
  const { business: businessId } = await orm.em
    .fork()
    .transactional((em) => lockEnabledEndpoint(em, endpointId))
  const nowMs = clock.now()
  // Apart from the lock above: those who complete attempts take deliveries before endpoints.
  await orm.em.fork().transactional(async (em) => {
    if (!(await makeDue(em, deliveryId, nowMs))) return
    const details = { endpointId, eventId: found.eventId }
    const action = 'delivery.redeliver'
    await appendAudit(em, actor, { action, targetId: deliveryId, businessId, details })
  })
  due()
  const delivery = await findDelivery(pool, deliveryId)
  if (delivery === undefined) throw noSuchDelivery()
  if (delivery.eventId === '') {
    throw new Fault('event_expired', 'The event was deleted for its age and cannot be sent again')
  }
  return delivery
}

/**
 * Makes due what an endpoint did not acknowledge, a part at a time: what was given up, and what
 * waits for a retry.
 *
 * @param sinceMs deliveries made at this time or later; milliseconds since the Unix epoch
 * @param signal aborts when the caller is gone
 * @returns how many
 * @throws Fault not_found, endpoint_disabled
 */
export async function recover(
  context: EndpointContext,
  endpointId: string,
  sinceMs: number,
  signal: AbortSignal,
  actor: Actor,
): Promise<number> {
  const { orm, pool, clock, due } = context
  await orm.em.fork().transactional(async (em) => {
    const { business: businessId } = await lockEnabledEndpoint(em, endpointId)
    const details = { since: new Date(sinceMs) }
    const action = 'endpoint.recover'
    await appendAudit(em, actor, { action, targetId: endpointId, businessId, details })
  })
  const nowMs = clock.now()
  const part = {
    endpointId,
    sinceMs,
    nowMs,
    rowsMax: RECOVER_ROWS_MAX,
  }
  let recovered = 0
  let after: string | undefined = '0'
  for (let i = 0; i < RECOVER_STATEMENTS_MAX && after !== undefined; i++) {
    signal.throwIfAborted()
    const some: { recovered: number; last: string | undefined } = await recoverFailed(
      pool,
      part,
      after,
    )
    recovered += some.recovered
    after = some.last
    due()
  }
  for (let i = 0; i < RECOVER_STATEMENTS_MAX; i++) {
    signal.throwIfAborted()
    const some = await hastenWaiting(pool, part)
    recovered += some
    due()
    if (some < RECOVER_ROWS_MAX) break
  }
  return recovered
}
