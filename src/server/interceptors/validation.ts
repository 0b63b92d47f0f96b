import {
  type DescEnum,
  type DescField,
  type DescMessage,
  type Message,
  ScalarType,
} from '@bufbuild/protobuf'
import type { Path } from '@bufbuild/protobuf/reflect'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { createValidator, type Validator, type Violation } from '@bufbuild/protovalidate'
import type { Interceptor, StreamRequest } from '@connectrpc/connect'
import { assert, type FieldFault, invalidFields } from '../../core/errors.ts'
import { fieldFaultsOf } from '../invokers.ts'

/** Checks a message against the rules of its schema. @returns all faults; empty if the message is valid */
export type Check = (schema: DescMessage, message: Message) => readonly FieldFault[]

/** Applies the rules of protovalidate. Faults have JSON names. Trims white space around texts first. */
export function createCheck(): Check {
  const validator: Validator = createValidator({ regexMatch: createRegexMatch() })
  const trims = new Map<DescMessage, Trim>()
  const innerTrims = new Map<DescMessage, Trim | undefined>()
  const finders = new Map<DescMessage, FindFaults>()
  return (schema, message) => {
    let trim = trims.get(schema)
    if (trim === undefined) {
      trim = createTrim(textFields(schema), compileInnerTrims(schema, innerTrims))
      trims.set(schema, trim)
    }
    trim(message)
    const unstorable: FieldFault[] = []
    compileUnstorable(schema, finders)(message, '', unstorable)
    const result = validator.validate(schema, message)
    if (result.kind === 'valid') return unstorable
    if (result.kind === 'error') {
      // A time out of range can make a rule that compares two times overflow.
      if (unstorable.length > 0) return unstorable
      throw result.error
    }
    const faults = result.violations.map((violation) => toFieldFault(schema, violation))
    return unstorable.length === 0 ? faults : merge(schema, faults, unstorable)
  }
}

/**
 * Refuses a message that breaks a rule of its schema, or has fields that could not be decoded, with all faults at once.
 * Runs after authentication: unauthenticated callers learn nothing about the rules.
 */
export function validation(check: Check): Interceptor {
  return (next) => (request) => {
    if (request.stream) return next({ ...request, message: checked(request, check) })
    const faults = check(request.method.input, request.message)
    const undecoded = fieldFaultsOf(request)
    if (undecoded.length > 0) throw invalidFields(merge(request.method.input, undecoded, faults))
    if (faults.length > 0) throw invalidFields(faults)
    return next(request)
  }
}

async function* checked(request: StreamRequest, check: Check): AsyncGenerator<Message> {
  for await (const message of request.message) {
    const faults = check(request.method.input, message)
    if (faults.length > 0) throw invalidFields(faults)
    yield message
  }
}

/**
 * Returns all faults in the order of the schema. For a field in both lists, only the first counts.
 */
function merge(
  schema: DescMessage,
  first: readonly FieldFault[],
  second: readonly FieldFault[],
): FieldFault[] {
  const names = new Set(first.map((fault) => fault.field))
  const all = [...first, ...second.filter((fault) => !names.has(fault.field))]
  const order = schema.fields.map((field) => field.jsonName)
  const placeOf = ({ field }: FieldFault) => order.indexOf(field.split(/[.[]/, 1)[0] ?? '')
  return all.sort((a, b) => placeOf(a) - placeOf(b))
}

/** The patterns come from the contract, so JavaScript's RegExp is safe, and it is much faster than RE2. */
function createRegexMatch(): (pattern: string, text: string) => boolean {
  const patterns = new Map<string, RegExp>()
  return (pattern, text) => {
    let regex = patterns.get(pattern)
    if (regex === undefined) {
      regex = new RegExp(pattern, 'u')
      patterns.set(pattern, regex)
    }
    return regex.test(text)
  }
}

/** Trims texts of a message, in place. */
type Trim = (message: Message) => void

function createTrim(names: readonly string[], inner: readonly Trim[]): Trim {
  return (message) => {
    const values = message as unknown as Record<string, unknown>
    for (const name of names) {
      const text = values[name]
      if (typeof text === 'string') values[name] = text.trim()
    }
    for (const trim of inner) trim(message)
  }
}

function textFields(schema: DescMessage, isIncluded = (_field: DescField) => true): string[] {
  return schema.fields
    .filter((field) => field.fieldKind === 'scalar' && field.scalar === ScalarType.STRING)
    .filter(isIncluded)
    .map((field) => field.localName)
}

/**
 * Trims within the fields of a message: lists of texts, and other messages. The pairs of maps stay as they are. So do lists
 * of messages: a repeat of what an earlier version stored untrimmed would differ from it.
 */
function compileInnerTrims(
  schema: DescMessage,
  known: Map<DescMessage, Trim | undefined>,
): readonly Trim[] {
  return schema.fields.flatMap((field): readonly Trim[] => {
    if (field.fieldKind === 'list' && field.scalar === ScalarType.STRING) {
      return [
        (message) => {
          const texts = readField(message, field) as string[]
          for (const [at, text] of texts.entries()) texts[at] = text.trim()
        },
      ]
    }
    const within = field.fieldKind === 'message' && compileTrim(field.message, known)
    if (!within) return []
    return [
      (message) => {
        const value = readField(message, field)
        if (value !== undefined) within(value as Message)
      },
    ]
  })
}

/**
 * Trims a message inside of another one. Its secrets, such as passwords, stay as they are.
 *
 * @returns undefined if it has no texts
 */
function compileTrim(
  schema: DescMessage,
  known: Map<DescMessage, Trim | undefined>,
): Trim | undefined {
  if (known.has(schema)) return known.get(schema)
  const names = textFields(schema, ({ proto }) => proto.options?.debugRedact !== true)
  const inner: Trim[] = []
  known.set(schema, createTrim(names, inner))
  inner.push(...compileInnerTrims(schema, known))
  if (names.length === 0 && inner.length === 0) known.set(schema, undefined)
  return known.get(schema)
}

/** Adds the faults of a message; `path` is the prefix of their field names. */
type FindFaults = (message: Message, path: string, faults: FieldFault[]) => void

/**
 * Finds values that PostgreSQL cannot store: texts with U+0000 or half of a surrogate pair, and times out of range. Lists of
 * messages are skipped, because the items of a batch are checked one by one.
 */
function compileUnstorable(schema: DescMessage, known: Map<DescMessage, FindFaults>): FindFaults {
  const done = known.get(schema)
  if (done !== undefined) return done
  const finders: FindFaults[] = []
  const findAll: FindFaults = (message, path, faults) => {
    for (const find of finders) find(message, path, faults)
  }
  known.set(schema, findAll)
  for (const field of schema.fields) {
    const find = compileField(field, known)
    if (find !== undefined) finders.push(find)
  }
  return findAll
}

function compileField(field: DescField, known: Map<DescMessage, FindFaults>) {
  const { jsonName } = field
  if (field.fieldKind === 'message') {
    const isTimestamp = field.message.typeName === 'google.protobuf.Timestamp'
    const findWithin = isTimestamp ? undefined : compileUnstorable(field.message, known)
    return (message: Message, path: string, faults: FieldFault[]) => {
      const value = readField(message, field)
      if (value === undefined) return
      if (findWithin) findWithin(value as Message, `${path}${jsonName}.`, faults)
      else if (!isTime(value as Timestamp)) {
        faults.push({ field: path + jsonName, message: 'must be a time in the years 1 to 9999' })
      }
    }
  }
  if (field.scalar !== ScalarType.STRING) return undefined
  return (message: Message, path: string, faults: FieldFault[]) => {
    const value = readField(message, field)
    const fault =
      typeof value === 'object' && value !== null
        ? Object.values(value)
            .map(textFault)
            .find((found) => found !== undefined)
        : textFault(value)
    if (fault !== undefined) faults.push({ field: path + jsonName, message: fault })
  }
}

function readField(message: Message, { localName, oneof }: DescField): unknown {
  const values = message as unknown as Readonly<Record<string, unknown>>
  if (oneof === undefined) return values[localName]
  const chosen = values[oneof.localName] as { readonly case?: string; readonly value?: unknown }
  return chosen.case === localName ? chosen.value : undefined
}

/** Whether a Timestamp is in the range that protobuf allows; the binary parser does not check it. */
function isTime({ seconds, nanos }: Timestamp): boolean {
  return seconds >= -62_135_596_800n && seconds <= 253_402_300_799n && nanos >= 0 && nanos < 1e9
}

function textFault(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  if (!value.isWellFormed()) return 'must not contain half of a surrogate pair'
  return value.includes('\0') ? 'must not contain the character U+0000' : undefined
}

function toFieldFault(schema: DescMessage, violation: Violation): FieldFault {
  const message = wordsOf(violation)
  const field = pathText(violation.field)
  if (field !== '') return { field, message }
  // The id of a rule over several fields begins with the field that gets the fault: "id_type.palmpay".
  const name = violation.ruleId.split('.')[0]
  const owner = schema.fields.find((candidate) => candidate.name === name)
  assert(owner, `rule ${violation.ruleId} of ${schema.typeName} begins with the name of a field`)
  return { field: owner.jsonName, message }
}

function pathText(path: Path): string {
  let text = ''
  for (const part of path) {
    if (part.kind === 'list_sub') text += `[${part.index}]`
    else if (part.kind === 'field') text += (text && '.') + part.jsonName
    else if (part.kind === 'oneof') text += (text && '.') + part.name
  }
  return text
}

/**
 * The error texts for the patterns of the contract. The contract has no CEL rules with messages instead, because protovalidate
 * checks patterns without its CEL interpreter, which matters for recorded payments.
 */
const PATTERNS: Readonly<Record<string, string>> = {
  '^[0-9]{10}$': 'must be ten digits',
  '^[A-Za-z0-9_./-]{0,64}$': 'must be at most 64 characters of A-Z a-z 0-9 - _ . /',
  '^[A-Za-z0-9_./-]{1,64}$': 'must be 1 to 64 characters of A-Z a-z 0-9 - _ . /',
  '^[A-Za-z0-9_./:-]{0,100}$': 'must be at most 100 characters of A-Z a-z 0-9 - _ . / :',
  '^([A-Z][A-Z_]{0,63})?$': 'must be a name in capital letters, such as PAYMENT_NOTIFICATION',
  '^[A-Z][A-Z_]{0,63}$': 'must be the name of a kind of event, such as PAYMENT_NOTIFICATION',
  '^20[0-9]{2}-[0-9]{2}-[0-9]{2}$': 'must be a day, YYYY-MM-DD, such as 2026-12-25',
  '^20[0-9]{2}-(0[1-9]|1[0-2])$': 'must be a month, YYYY-MM, such as 2026-12',
  '^(([01][0-9]|2[0-3]):[0-5][0-9])?$': 'must be a time of day, HH:MM, such as 18:30',
}

/** Rewrites the error texts of protovalidate. */
const WORDINGS: readonly (readonly [RegExp, string | ((...found: string[]) => string)])[] = [
  [/^does not match regex pattern `(.*)`$/s, (_, pattern = '') => PATTERNS[pattern] ?? _],
  [
    /^must be greater than or equal to (\d+)s and less than or equal to (\d+)s$/,
    'must be $1 to $2 seconds',
  ],
  [/^must be greater than or equal to (\S+) and less than or equal to (\S+)$/, 'must be $1 to $2'],
  [
    /^must be greater than or equal to (\S+) and less than (\S+)$/,
    'must be from $1 on, and before $2',
  ],
  [
    /^must be greater than (\d\S*) and less than or equal to (\S+)$/,
    'must be more than $1, and at most $2',
  ],
  [/^must be greater than now/, 'must be in the future'],
  [/^must be less than (\d{4}-\S+)$/, 'must be before $1'],
  [/^must be greater than or equal to (\S+)$/, 'must be $1 or more'],
  [/^must be greater than (\S+)$/, 'must be more than $1'],
  [/^must be at least 1 characters$/, 'must not be empty'],
  [/^must be in list \[(.*)\]$/, 'must be one of $1'],
  [/^must equal true$/, 'must be true, or absent'],
  [/^repeated value must contain unique items$/, 'must not have a value twice'],
  [/^must contain at least 1 item\(s\)$/, 'must have at least one entry'],
  [/^must contain no more than (\d+) item\(s\)$/, 'must have at most $1 entries'],
  [/^map must be at most (\d+) entries$/, 'must have at most $1 entries'],
]

/** The text of a violation for the caller. If the rule states a message, that is the text. */
function wordsOf({ ruleId, message, field: path }: Violation): string {
  if (ruleId === 'required') return requiredWords(path)
  if (ruleId.startsWith('enum.')) return enumWords(path, message)
  for (const [text, words] of WORDINGS) {
    if (text.test(message)) return message.replace(text, words as string)
  }
  return message
}

function requiredWords(path: Path): string {
  const last = path.at(-1)
  if (last?.kind !== 'oneof') return 'is required'
  // In JSON, a oneof is only its fields, so they are listed.
  return `is required: one of ${last.fields.map(({ jsonName }) => jsonName).join(', ')}`
}

/** Replaces the numbers in the rules of enums by names, because JSON has only the names. */
function enumWords(path: Path, message: string): string {
  const values = enumOf(path)?.values ?? []
  const numbers = /\[(.*)\]$/.exec(message)?.[1]?.split(', ')
  const allowed = values.filter(({ number }) => numbers?.includes(`${number}`) ?? number !== 0)
  return `must be one of ${allowed.map(({ name }) => name).join(', ')}`
}

function enumOf(path: Path): DescEnum | undefined {
  const field = path.findLast((part) => part.kind === 'field')
  return field?.enum
}
