import type { EntityManager } from '@mikro-orm/postgresql'
import { newId } from '../../core/ids.ts'
import { appendEvents } from '../../events/append-events.ts'
import { encodeEndpointEvent } from '../message.ts'
import type { Endpoint } from './endpoint.entity.ts'
import type { EndpointEventKind } from './endpoint.ts'

/**
 * Writes an event about an endpoint into the outbox, in the transaction that changes the endpoint.
 *
 * @returns the event's id
 */
export async function publishEndpointEvent(
  em: EntityManager,
  kind: EndpointEventKind,
  endpoint: Endpoint,
  nowMs: number,
): Promise<string> {
  const eventId = newId('evt', nowMs)
  await em.execute(
    appendEvents({
      event_id: '?',
      business_id: '?',
      live: '?',
      kind: '?',
      occurred_at: '?',
      payload: '?',
      subject_id: '?',
    }),
    [
      eventId,
      endpoint.business,
      endpoint.live,
      kind,
      new Date(nowMs),
      Buffer.from(encodeEndpointEvent(endpoint, { eventId, kind, nowMs })),
      endpoint.id,
    ],
  )
  return eventId
}
