import {
  type AnyDesc,
  type DescField,
  type DescFile,
  type DescMessage,
  getOption,
  type JsonObject,
  ScalarType,
} from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'
import { getComments, getPackageComments } from '@bufbuild/protoplugin'
import {
  type FieldRules,
  field as fieldOption,
  message as messageOption,
  type Rule,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import { decimal } from '../../gen/inflow/type/v1/decimal_pb.ts'
import { restNameOf } from '../protobuf/values.ts'

/** The schemas of a message differ between requests and responses: required fields, and the format of decimals. */
type Side = 'request' | 'response'

/** The schemas of messages in the form of REST, each created once. */
export interface Schemas {
  readonly components: JsonObject
  /** @param strict whether unknown fields are refused */
  request(message: DescMessage, strict: boolean): JsonObject
  /** The schema of a response. A response always has all of its fields: `status`, `message` and `data`. */
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
      // Added before its fields are read, so that a schema comes before the schemas to which it refers.
      components[name] = {}
      components[name] = { description: commentOf(message), ...make() }
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  const nested = (message: DescMessage, side: Side): JsonObject => {
    // The business's own data: strings by keys that the business chose.
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

/** Whether a field is always present. Fields with explicit presence are absent if they do not apply. */
export function isAlwaysThere({ presence }: DescField): boolean {
  return presence === FeatureSet_FieldPresence.IMPLICIT
}

/** The value that a comment states: `Always true.`, or `"Account reserved".` */
function valueIn(comment: string): JsonObject {
  if (comment === 'Always true.') return { const: true }
  const text = textIn(comment)
  return text === undefined ? {} : { examples: [text] }
}

/** The text that a comment quotes, and nothing else; undefined: it quotes none. */
export function textIn(comment: string): string | undefined {
  return /^"([^"]*)"\.$/.exec(comment)?.[1]
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

/** Merges keywords into a schema; keywords about items and values are merged into their schemas. */
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

/** The validation rules of a field. */
interface Rules {
  readonly required: boolean
  /** Keywords of JSON Schema. */
  readonly keywords: JsonObject
  /** The rules that JSON Schema cannot state, as sentences. */
  readonly notes: readonly string[]
}

/** @throws Error for a kind of rule without a translation, so that the document never lacks a rule */
function rulesOf(field: DescField): Rules {
  const rules = getOption(field, fieldOption)
  const { keywords, notes } = translate(rules)
  const nonEmpty = isText(field) && rules.required && !('pattern' in keywords || 'enum' in keywords)
  return {
    required: rules.required,
    keywords: nonEmpty ? { minLength: 1, ...keywords } : keywords,
    notes,
  }
}

/** The rules over several fields of a message, as texts that begin with the field at fault. */
function messageRulesOf(message: DescMessage): string[] {
  return getOption(message, messageOption).cel.map(({ id, message: text }) => {
    const field = message.fields.find(({ name }) => name === id.split('.')[0])
    if (!field) throw new Error(`rule ${id} of ${message.typeName} begins with no field`)
    return `\`${field.jsonName}\` ${text}`
  })
}

function isText(field: DescField): boolean {
  return field.fieldKind === 'scalar' && field.scalar === ScalarType.STRING
}

interface Translation {
  readonly keywords: JsonObject
  readonly notes: readonly string[]
}

function translate(rules: FieldRules): Translation {
  const typed = translateTyped(rules)
  const cel = rules.cel.map(translateCel)
  return {
    keywords: Object.assign({}, typed.keywords, ...cel.map(({ keywords }) => keywords)),
    notes: [...typed.notes, ...cel.flatMap(({ notes }) => notes)],
  }
}

/** The JSON Schema keywords for rules of protovalidate. */
const KEYWORDS: Readonly<Record<string, string>> = {
  minLen: 'minLength',
  maxLen: 'maxLength',
  pattern: 'pattern',
  gte: 'minimum',
  lte: 'maximum',
  minItems: 'minItems',
  maxItems: 'maxItems',
  unique: 'uniqueItems',
  minPairs: 'minProperties',
  maxPairs: 'maxProperties',
}

function translateTyped({ type }: FieldRules): Translation {
  const keywords: JsonObject = {}
  const notes: string[] = []
  if (type.case === undefined) return { keywords, notes }
  const nest = (keyword: string, rules: FieldRules | undefined) => {
    if (!rules) return
    const inner = translate(rules)
    if (Object.keys(inner.keywords).length > 0) keywords[keyword] = inner.keywords
    notes.push(...inner.notes)
  }
  // The bounds of numbers are in oneofs of the rules.
  const { greaterThan, lessThan, items, keys, values, $typeName, $unknown, ...own } =
    type.value as unknown as Record<string, unknown>
  for (const bound of [greaterThan, lessThan] as { case?: string; value?: unknown }[]) {
    if (bound?.case) own[bound.case] = bound.value
  }
  nest('items', items as FieldRules | undefined)
  nest('propertyNames', keys as FieldRules | undefined)
  nest('additionalProperties', values as FieldRules | undefined)
  for (const [name, value] of Object.entries(own)) {
    if (isUnset(value)) continue
    const keyword = KEYWORDS[name]
    if (keyword === undefined) throw new Error(`the rule ${type.case}.${name} has no translation`)
    keywords[keyword] = typeof value === 'bigint' ? Number(value) : (value as never)
  }
  return { keywords, notes }
}

function isUnset(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isUnset)
  return value === undefined || value === false || value === 0 || value === 0n || value === ''
}

/**
 * CEL expressions that JSON Schema can express, in the form that the contract uses. An empty text equals
 * an absent field, so the schemas leave it out.
 */
const EXPRESSIONS: readonly (readonly [RegExp, (text: string) => JsonObject])[] = [
  [/^(?:this == '' \|\| )?this\.matches\('([^']*)'\)$/, toPattern],
  [/^this in \[(.*)\]$/, (list) => ({ enum: textsOf(list) })],
  [/^this\.size\(\) <= (\d+)$/, (text) => ({ maxLength: Number(text) })],
  [/^this\.(isEmail)\(\)$/, () => ({ format: 'email' })],
  [/^this >= (\d+)$/, (text) => ({ minimum: Number(text) })],
  [/^this <= (\d+)$/, (text) => ({ maximum: Number(text) })],
]

function translateCel({ expression, message }: Rule): Translation {
  const parts = expression.includes('(this.') ? [expression] : expression.split(' && ')
  const keywords: JsonObject = {}
  for (const part of parts) {
    const known = EXPRESSIONS.find(([pattern]) => pattern.test(part))
    if (!known) return { keywords: {}, notes: [message] }
    Object.assign(keywords, known[1](known[0].exec(part)?.[1] ?? ''))
  }
  return { keywords, notes: [] }
}

/**
 * Replaces a pattern with Unicode property classes: Python's `re` has no `\p{…}`, and generated JavaScript clients compile
 * patterns without the flag that `\p` needs. This pattern refuses control characters and line breaks; the service also
 * refuses invisible characters.
 */
const WITHOUT_CONTROLS = '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$'

/** @param literal a string literal of CEL */
function toPattern(literal: string): JsonObject {
  // CEL has the escapes of JavaScript except `\U`.
  const pattern = literal.replaceAll('\\\\', '\\').replaceAll(/\\U000(\w{5})/g, '\\u{$1}')
  // The bounds of a repeated character class are also stated as lengths, which more tools understand; of a group, only the
  // lower bound is.
  const [, of, min, max] = /^\^(\[(?:[^\]\\]|\\.)*\]|\(.*\))\{(\d+),(\d+)\}\$$/.exec(pattern) ?? []
  return {
    ...(max !== undefined && min !== '0' && { minLength: Number(min) }),
    ...(max !== undefined && of?.startsWith('[') && { maxLength: Number(max) }),
    pattern: pattern.includes('\\p{') ? WITHOUT_CONTROLS : pattern,
  }
}

function textsOf(list: string): string[] {
  return [...list.matchAll(/'([^']*)'/g)].map(([, text = '']) => text).filter((text) => text !== '')
}

/** The comment above an element of the contract, as Markdown: its paragraphs, each on one line. */
export function commentOf(desc: Exclude<AnyDesc, DescFile>): string {
  return toMarkdown(getComments(desc).leading)
}

/** The comment above the package of a file. */
export function packageCommentOf(file: DescFile): string {
  return toMarkdown(getPackageComments(file).leading)
}

/** Joins the lines of paragraphs. Lists and code, whose lines begin with a mark or are indented, keep their lines. */
function toMarkdown(comment: string | undefined): string {
  const text = (comment ?? '').replaceAll(/^ /gm, '').trim()
  return text.replaceAll(/(?<=\S)\n(?=[^\s\-|])/g, ' ')
}
