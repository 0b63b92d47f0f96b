import type { DescField, DescMessage, JsonObject } from '@bufbuild/protobuf'
import { ScalarType } from '@bufbuild/protobuf'
import { StructSchema } from '@bufbuild/protobuf/wkt'
import {
  EventBodySchema,
  EventDataSchema,
} from '../../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import { assert } from '../../core/errors.ts'
import type { EventKindFacts } from '../../events/event-kinds.ts'
import { isAlwaysThere } from './is-always-there.ts'

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
export function bodySchemaOf({ name, description, type, data, optionalData }: EventKindFacts) {
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
