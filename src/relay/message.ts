import { toJsonString } from '@bufbuild/protobuf'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { encodeCursor, tagOf } from '../events/cursor.ts'
import { toEventMessage, traceparentOf } from '../events/message.ts'
import type { LogEntry } from '../events/read-log.ts'
import type { EventMessage } from './event-sink.ts'

/** How the body of a message is encoded. */
export type RelayFormat = 'protobuf' | 'json'

const CONTENT_TYPES: Readonly<Record<RelayFormat, string>> = {
  protobuf: 'application/protobuf; proto=inflow.event.v1.Event',
  json: 'application/json',
}

const encoder = new TextEncoder()

/**
 * Converts an event of the log to a message. Its body is the event as a subscriber of the service gets it.
 *
 * @param epoch of the log
 */
export function toMessage(entry: LogEntry, epoch: number, format: RelayFormat): EventMessage {
  const { eventId: id, position, businessId, kind } = entry
  const cursor = encodeCursor({ epoch, position, tag: tagOf(id) })
  return {
    id,
    position,
    businessId,
    kind,
    cursor,
    epoch,
    mode: entry.live ? 'live' : 'test',
    contentType: CONTENT_TYPES[format],
    traceparent: traceparentOf(entry.payload),
    body:
      format === 'json'
        ? encoder.encode(toJsonString(EventSchema, toEventMessage(entry, epoch)))
        : encodePlaced(entry, cursor),
  }
}

/**
 * Appends the place in the log to a stored event: in protobuf, a later value of a field replaces an earlier value. Decoding
 * and encoding the whole event would cost more than publishing it.
 */
function encodePlaced(entry: LogEntry, cursor: string): Uint8Array {
  const { field } = EventSchema
  const place = new BinaryWriter()
    .tag(field.cursor.number, WireType.LengthDelimited)
    .string(cursor)
    .tag(field.position.number, WireType.Varint)
    .int64(entry.position)
    .tag(field.businessSequence.number, WireType.Varint)
    .int64(entry.businessSequence)
    .tag(field.live.number, WireType.Varint)
    .bool(entry.live)
    .tag(field.epoch.number, WireType.Varint)
    .int32(entry.epoch)
    .finish()
  return Buffer.concat([entry.payload, place])
}
