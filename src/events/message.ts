import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { type Event, EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  type SubscribeResponse,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import { assert } from '../core/errors.ts'
import { type Cursor, encodeCursor, tagOf } from './cursor.ts'
import { isEventKind } from './event-kinds.ts'
import type { LogEntry } from './read-log.ts'

/** Encodes an event for the outbox, without its position in the log. */
export function encodeEvent(event: Event): Uint8Array {
  assert(isEventKind(event.kind), `the catalogue has the kind ${event.kind}`)
  return toBinary(EventSchema, event)
}

/**
 * Adds to a stored event its place in the log and its mode, which older payloads lack.
 *
 * @param epoch the current epoch, for the cursor
 */
export function toEventMessage(entry: LogEntry, epoch: number): Event {
  const event = fromBinary(EventSchema, entry.payload)
  event.position = entry.position
  event.businessSequence = entry.businessSequence
  event.epoch = entry.epoch
  event.cursor = encodeCursor({ epoch, position: entry.position, tag: tagOf(entry.eventId) })
  event.live = entry.live
  const { payload } = event
  if (payload.case !== undefined && 'live' in payload.value) payload.value.live = entry.live
  return event
}

/**
 * The traceparent of a stored event, read without decoding the event: the relay and the webhooks do so for each.
 *
 * @returns undefined if it has none
 */
export function traceparentOf(payload: Uint8Array): string | undefined {
  const { number } = EventSchema.field.traceparent
  const reader = new BinaryReader(payload)
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag()
    if (field === number) return reader.string()
    reader.skip(type, field)
  }
  return undefined
}

export function toEventItem(entry: LogEntry, epoch: number): SubscribeResponse {
  return create(SubscribeResponseSchema, {
    item: { case: 'event', value: toEventMessage(entry, epoch) },
  })
}

export function toCheckpointItem(place: Cursor): SubscribeResponse {
  return create(SubscribeResponseSchema, {
    item: { case: 'checkpoint', value: { cursor: encodeCursor(place) } },
  })
}
