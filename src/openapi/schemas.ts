import {
  type DescField,
  type DescMessage,
  getOption,
  type JsonObject,
  ScalarType,
} from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'
import { decimal } from '../../gen/inflow/type/v1/decimal_pb.ts'
import { restNameOf } from '../protobuf/values.ts'
import { commentOf } from './comments.ts'
import { messageRulesOf, rulesOf } from './rules.ts'

/** Requests and responses of the same message differ: what is required, and how decimals are written. */
type Side = 'request' | 'response'

/** The schemas of messages, each made once, as REST reads and writes them. */
export interface Schemas {
  readonly components: JsonObject
  /** @param strict whether unknown fields are refused */
  request(message: DescMessage, strict: boolean): JsonObject
  /** Each response of a call has all its fields: `status`, `message` and `data`. */
  response(message: DescMessage): JsonObject
  /** A field of a response, with its comment. */
  responseField(field: DescField): JsonObject
}

const STRUCT = 'google.protobuf.Struct'

/** 2^53 - 1: REST reads int64 from JSON numbers. */
const INTEGER_MAX = Number.MAX_SAFE_INTEGER

export function createSchemas(): Schemas {
  const components: JsonObject = {}

  const refTo = (message: DescMessage, name: string, make: () => JsonObject): JsonObject => {
    if (!Object.hasOwn(components, name)) {
      // In place before its fields, so that a schema comes before the schemas that it refers to.
      components[name] = {}
      components[name] = { description: commentOf(message), ...make() }
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  const nested = (message: DescMessage, side: Side): JsonObject => {
    // The business's own data: texts by keys that it chose.
    if (message.typeName === STRUCT) {
      return { type: 'object', additionalProperties: { type: 'string' } }
    }
    if (side === 'response') {
      return refTo(message, message.name, () => objectOf(message, side, isAlwaysThere))
    }
    return refTo(message, `${message.name}Input`, () => inputOf(message))
  }

  const schemaOf = (field: DescField, side: Side): JsonObject => {
    const comment = commentOf(field)
    if (side === 'response') {
      return { description: comment, ...typeOf(field, side, nested), ...valueIn(comment) }
    }
    const { keywords, notes } = rulesOf(field)
    const description = [comment, ...notes.map(sentence)].join(' ')
    return merge({ description, ...typeOf(field, side, nested) }, keywords)
  }

  const objectOf = (
    message: DescMessage,
    side: Side,
    isRequired: (field: DescField) => boolean,
  ): JsonObject => ({
    type: 'object',
    properties: Object.fromEntries(
      message.fields.flatMap((field) => {
        const { jsonName } = field
        const name = side === 'request' ? restNameOf(field) : jsonName
        const schema = schemaOf(field, side)
        if (name === jsonName) return [[name, schema]]
        const description = `Another name of \`${name}\`, which is preferred.`
        return [
          [name, schema],
          [jsonName, { ...schema, description, deprecated: true }],
        ]
      }),
    ),
    required: message.fields.filter(isRequired).map((field) => field.jsonName),
  })

  const inputOf = (message: DescMessage): JsonObject => {
    const rules = messageRulesOf(message).map((rule) => `- ${rule}`)
    const description = [commentOf(message), ...(rules.length > 0 ? [rules.join('\n')] : [])]
    return { description: description.join('\n\n'), ...objectOf(message, 'request', isRequired) }
  }

  return {
    components,
    request: (message, strict) =>
      refTo(message, message.name, () => ({
        ...inputOf(message),
        ...(strict && { additionalProperties: false }),
      })),
    response: (message) =>
      refTo(message, message.name, () => objectOf(message, 'response', () => true)),
    responseField: (field) => schemaOf(field, 'response'),
  }
}

const isRequired = (field: DescField): boolean => rulesOf(field).required

/** Fields with presence are absent where they do not apply. */
export function isAlwaysThere({ presence }: DescField): boolean {
  return presence === FeatureSet_FieldPresence.IMPLICIT
}

/** The value that a comment states: `Always true.`, or `"Account reserved".` */
function valueIn(comment: string): JsonObject {
  if (comment === 'Always true.') return { const: true }
  const text = /^"([^"]*)"\.$/.exec(comment)?.[1]
  return text === undefined ? {} : { examples: [text] }
}

const SCALARS: Readonly<Partial<Record<ScalarType, JsonObject>>> = {
  [ScalarType.DOUBLE]: { type: 'number' },
  [ScalarType.INT64]: { type: 'integer', maximum: INTEGER_MAX },
  [ScalarType.INT32]: { type: 'integer' },
  [ScalarType.BOOL]: { type: 'boolean' },
  [ScalarType.STRING]: { type: 'string' },
}

function typeOf(
  field: DescField,
  side: Side,
  nested: (message: DescMessage, side: Side) => JsonObject,
): JsonObject {
  if (field.fieldKind === 'message') return nested(field.message, side)
  if (field.fieldKind === 'list') {
    if (field.listKind === 'message') return { type: 'array', items: nested(field.message, side) }
    if (field.listKind === 'scalar') return { type: 'array', items: scalarOf(field.scalar, field) }
  }
  if (field.fieldKind === 'map' && field.mapKind === 'scalar') {
    return { type: 'object', additionalProperties: scalarOf(field.scalar, field) }
  }
  if (field.fieldKind === 'scalar') {
    if (side === 'request' && getOption(field, decimal)) return { type: ['string', 'number'] }
    return scalarOf(field.scalar, field)
  }
  throw new Error(`${field} has a type that REST does not use`)
}

function scalarOf(scalar: ScalarType, field: DescField): JsonObject {
  const schema = SCALARS[scalar]
  if (!schema) throw new Error(`${field} has a type that REST does not use`)
  return schema
}

/** The keywords of rules about items and values join their types. */
function merge(schema: JsonObject, keywords: JsonObject): JsonObject {
  const merged: JsonObject = { ...schema }
  for (const [keyword, value] of Object.entries(keywords)) {
    const present = merged[keyword]
    const both = isObject(present) && isObject(value)
    merged[keyword] = both ? { ...present, ...value } : value
  }
  return merged
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `must be 11 digits` → `Must be 11 digits.` */
function sentence(note: string): string {
  return `${note.charAt(0).toUpperCase()}${note.slice(1)}.`
}
