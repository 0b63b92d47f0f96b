import { create, type JsonObject } from '@bufbuild/protobuf'
import { EventAudience } from '../../../gen/inflow/type/v1/event_kind_pb.ts'
import {
  type EventKindDescription,
  EventKindDescriptionSchema,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { BankNames } from '../../banks/bank.ts'
import type { TimeText } from '../../core/clock.ts'
import { assert } from '../../core/errors.ts'
import { EVENT_KINDS, type EventKindFacts } from '../../events/event-kinds.ts'
import { createToEventBody, encodeEventBody } from '../sender/body.ts'
import { exampleEntry } from './example-payloads.ts'
import { bodySchemaOf } from './json-schema.ts'

/** The previous sequence of the examples, whose own is 42: one event was of a kind that was not sent. */
const PREVIOUS = 40

/** The catalogue of events. The examples are encoded as webhooks are, so they cannot differ from them. */
export function listEventKinds(timeText: TimeText, bankNames: BankNames): EventKindDescription[] {
  const toEventBody = createToEventBody(timeText, bankNames)
  const exampleOf = (kind: EventKindFacts): JsonObject => {
    const entry = exampleEntry(kind.name)
    assert(entry, `the catalogue has an example of ${kind.name}`)
    return JSON.parse(encodeEventBody(toEventBody(entry, PREVIOUS))) as JsonObject
  }
  return EVENT_KINDS.map((kind) => {
    const { name, description, audience } = kind
    const described = { kind: name, description, audience }
    if (audience === EventAudience.SUBSCRIBERS) return create(EventKindDescriptionSchema, described)
    return create(EventKindDescriptionSchema, {
      ...described,
      schema: bodySchemaOf(kind),
      example: exampleOf(kind),
    })
  })
}
