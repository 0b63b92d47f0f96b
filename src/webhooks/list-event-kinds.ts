import {
  create,
  type DescField,
  type DescMessage,
  type JsonObject,
  ScalarType,
} from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence, StructSchema } from '@bufbuild/protobuf/wkt'
import { EventBodySchema, EventDataSchema } from '../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import { EventAudience } from '../../gen/inflow/type/v1/event_kind_pb.ts'
import {
  type EventKindDescription,
  EventKindDescriptionSchema,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { BankNames } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { assert } from '../core/errors.ts'
import { EVENT_KINDS, type EventKindFacts } from '../events/event-kinds.ts'
import { exampleEntry } from './example-payloads.ts'
import { createToEventBody, encodeEventBody } from './sender/body.ts'

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

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

const SCALARS: Readonly<Partial<Record<ScalarType, string>>> = {
  [ScalarType.STRING]: 'string',
  [ScalarType.BOOL]: 'boolean',
  [ScalarType.INT32]: 'integer',
  [ScalarType.DOUBLE]: 'number',
}

/**
 * The JSON schema of the webhooks of a kind. Receivers must accept fields that it does not have: a later
 * release may add some.
 */
function bodySchemaOf({ name, description, type, data, optionalData }: EventKindFacts) {
  const fieldOf = (fieldName: string): DescField => {
    const field = EventDataSchema.fields.find((each) => each.name === fieldName)
    assert(field, `EventData has the field ${fieldName} of ${name}`)
    return field
  }
  const common = EventDataSchema.fields.filter(isAlwaysThere)
  const required = [...common, ...data.map(fieldOf)]
  const dataSchema = objectOf([...required, ...optionalData.map(fieldOf)], required)
  return {
    $schema: DIALECT,
    title: name,
    description,
    ...objectOf(EventBodySchema.fields, EventBodySchema.fields, {
      event: { const: name },
      data: withProperty(dataSchema, 'type', { const: type }),
    }),
  } satisfies JsonObject
}

type ObjectSchema = {
  readonly type: 'object'
  readonly properties: JsonObject
  readonly required: string[]
}

/** @param known the schemas of fields that are narrower than their types */
function objectOf(
  fields: readonly DescField[],
  required: readonly DescField[],
  known: JsonObject = {},
): ObjectSchema {
  const inOrder = [...fields].sort((one, other) => one.number - other.number)
  return {
    type: 'object',
    properties: Object.fromEntries(
      inOrder.map((field) => [field.jsonName, known[field.jsonName] ?? schemaOf(field)]),
    ),
    required: inOrder.filter((field) => required.includes(field)).map((field) => field.jsonName),
  }
}

function withProperty(schema: ObjectSchema, name: string, property: JsonObject): JsonObject {
  return { ...schema, properties: { ...schema.properties, [name]: property } }
}

function schemaOf(field: DescField): JsonObject {
  if (field.fieldKind === 'message') return messageOf(field.message)
  const type = field.fieldKind === 'scalar' ? SCALARS[field.scalar] : undefined
  assert(type, `webhooks have a JSON type for ${field.name}`)
  return { type }
}

function messageOf({ fields, typeName }: DescMessage): JsonObject {
  // The business's own data: texts by keys that it chose.
  if (typeName === StructSchema.typeName) {
    return { type: 'object', additionalProperties: { type: 'string' } }
  }
  return objectOf(fields, fields.filter(isAlwaysThere))
}

/**
 * Whether every webhook has a field of EventData, or every message a field of its own. Fields with
 * presence appear only if they apply; `previous_sequence` applies to every webhook.
 */
export function isAlwaysThere({ name, presence }: DescField): boolean {
  return presence === FeatureSet_FieldPresence.IMPLICIT || name === 'previous_sequence'
}
