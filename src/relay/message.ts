import { toBinary, toJsonString } from '@bufbuild/protobuf'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { toEventMessage } from '../events/message.ts'
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
 * An event of the log as a message, with what a subscriber of the service gets as the body.
 *
 * @param epoch of the log
 */
export function toMessage(entry: LogEntry, epoch: number, format: RelayFormat): EventMessage {
  const event = toEventMessage(entry, epoch)
  return {
    id: entry.eventId,
    position: entry.position,
    mode: entry.live ? 'live' : 'test',
    businessId: entry.businessId,
    kind: entry.kind,
    cursor: event.cursor,
    epoch,
    contentType: CONTENT_TYPES[format],
    body:
      format === 'json'
        ? encoder.encode(toJsonString(EventSchema, event))
        : toBinary(EventSchema, event),
  }
}
