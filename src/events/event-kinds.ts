import { getOption } from '@bufbuild/protobuf'
import {
  EventAudience,
  type EventKindOptions,
  EventKindSchema,
  event_kind,
} from '../../gen/inflow/type/v1/event_kind_pb.ts'
import type { FieldFault } from '../core/errors.ts'

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

/** The kinds that only endpoints receive that request them. */
export const KINDS_ON_REQUEST: readonly string[] = EVENT_KINDS.filter(
  ({ audience }) => audience === EventAudience.ON_REQUEST,
).map(({ name }) => name)

const TYPES: ReadonlyMap<string, string> = new Map(
  EVENT_KINDS.map(({ name, type }) => [name, type]),
)

export function isEventKind(name: string): boolean {
  return TYPES.has(name)
}

/** The `data.type` of the webhooks of a kind; UNKNOWN for one of a later release. */
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
