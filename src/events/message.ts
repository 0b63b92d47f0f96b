import { create, fromBinary, getOption, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { type Event, EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  type SubscribeResponse,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import {
  EventAudience,
  type EventKindOptions,
  EventKindSchema,
  event_kind,
} from '../../gen/inflow/type/v1/event_kind_pb.ts'
import { assert, type FieldFault } from '../core/errors.ts'
import { type Cursor, encodeCursor, tagOf } from './cursor.ts'
import type { LogEntry } from './read-log.ts'

/**
 * Encodes an event for the outbox, without its position in the log. `create` does not copy what is a message already, as the
 * events of payments are.
 */
export function encodeEvent(init: MessageInitShape<typeof EventSchema>): Uint8Array {
  const event = create(EventSchema, init)
  assert(isEventKind(event.kind), `the catalogue has the kind ${event.kind}`)
  return toBinary(EventSchema, event)
}

/**
 * Adds the place in the log and the mode to a stored event. Older payloads lack the mode.
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
 * The traceparent of a stored event, read without decoding the event, because the relay and webhooks need it for each event.
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

/** A kind of event, as the contract describes it. */
export interface EventKindFacts
  extends Pick<EventKindOptions, 'description' | 'audience' | 'type' | 'data' | 'optionalData'> {
  /** PAYMENT_NOTIFICATION, … */
  readonly name: string
}

/** Every kind of event, in the order of the contract. */
export const EVENT_KINDS: readonly EventKindFacts[] = EventKindSchema.values
  .filter((value) => value.number !== 0)
  .map((value) => ({ name: value.localName, ...getOption(value, event_kind) }))

/** The kinds that an endpoint may receive. */
const ENDPOINT_KINDS = EVENT_KINDS.filter(({ audience }) => audience !== EventAudience.SUBSCRIBERS)

/** The kinds that an endpoint receives only if it requests them. */
export const KINDS_ON_REQUEST: readonly string[] = EVENT_KINDS.filter(
  ({ audience }) => audience === EventAudience.ON_REQUEST,
).map(({ name }) => name)

const TYPES: ReadonlyMap<string, string> = new Map(
  EVENT_KINDS.map(({ name, type }) => [name, type]),
)

function isEventKind(name: string): boolean {
  return TYPES.has(name)
}

/** The `data.type` of the webhooks of a kind; UNKNOWN for a kind of a later release. */
export function typeOfKind(name: string): string {
  return TYPES.get(name) ?? 'UNKNOWN'
}

/** The faults of a filter by kind: it may name every kind. */
export function kindFaults(kinds: readonly string[]): FieldFault[] {
  return faultsAmong(EVENT_KINDS, kinds)
}

/** The faults of the kinds that an endpoint requests. */
export function endpointKindFaults(kinds: readonly string[]): FieldFault[] {
  return faultsAmong(ENDPOINT_KINDS, kinds)
}

function faultsAmong(allowed: readonly EventKindFacts[], kinds: readonly string[]): FieldFault[] {
  const names = allowed.map(({ name }) => name)
  return kinds.flatMap((kind, index) =>
    names.includes(kind)
      ? []
      : { field: `kinds[${index}]`, message: `must be one of ${names.join(', ')}` },
  )
}
