import { Fault } from '../errors.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { lockEnabledEndpoint } from './find-endpoint.ts'
import { noSuchDelivery } from './list-deliveries.ts'
import { findDelivery, type StoredDelivery } from './read-deliveries.ts'
import { hastenWaiting, makeDue, recoverFailed } from './resend-deliveries.ts'

/** How many deliveries one statement recovers, and how many statements one call makes. */
const RECOVER_ROWS_MAX = 5_000
const RECOVER_STATEMENTS_MAX = 10_000

/** What is claimed while a statement runs, or by an instance whose clock is ahead. */
const CLAIM_MARGIN_MS = 60_000

/**
 * Makes a delivery due, with the whole schedule of retries before it.
 *
 * @throws Fault not_found, endpoint_disabled, event_expired
 */
export async function redeliver(
  context: EndpointContext,
  deliveryId: string,
): Promise<StoredDelivery> {
  const { pool, clock, leaseMs, due } = context
  const found = await findDelivery(pool, deliveryId)
  if (found === undefined) throw noSuchDelivery()
  await requireEnabled(context, found.endpointId)
  const nowMs = clock.now()
  await makeDue(pool, deliveryId, { nowMs, underWayUntilMs: nowMs + leaseMs + CLAIM_MARGIN_MS })
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
): Promise<number> {
  const { pool, clock, leaseMs, due } = context
  await requireEnabled(context, endpointId)
  const nowMs = clock.now()
  const part = {
    endpointId,
    sinceMs,
    nowMs,
    underWayUntilMs: nowMs + leaseMs + CLAIM_MARGIN_MS,
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

async function requireEnabled({ orm }: EndpointContext, endpointId: string): Promise<void> {
  await orm.em.fork().transactional((em) => lockEnabledEndpoint(em, endpointId))
}
