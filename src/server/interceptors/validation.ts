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

/** Checks a message against the rules of its schema. @returns all faults; none if it is valid */
export type Check = (schema: DescMessage, message: Message) => readonly FieldFault[]

/** Applies the rules of protovalidate. Faults have JSON names. Trims white space around texts first. */
export function createCheck(): Check {
  const validator: Validator = createValidator({ regexMatch: createRegexMatch() })
  const texts = new Map<DescMessage, readonly string[]>()
  const finders = new Map<DescMessage, FindFaults>()
  return (schema, message) => {
    let names = texts.get(schema)
    if (names === undefined) {
      names = textFields(schema)
      texts.set(schema, names)
    }
    trim(message as unknown as Record<string, unknown>, names)
    const unstorable: FieldFault[] = []
    compileUnstorable(schema, finders)(message, '', unstorable)
    const result = validator.validate(schema, message)
    if (result.kind === 'valid') return unstorable
    if (result.kind === 'error') throw result.error
    const faults = result.violations.map((violation) => toFieldFault(schema, violation))
    return unstorable.length === 0 ? faults : merge(schema, faults, unstorable)
  }
}

/**
 * Refuses a message that breaks a rule of its schema, with all faults at once; so does a field that
 * could not be decoded. It runs after authentication: strangers learn nothing about the rules.
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

/** Patterns come from the contract, so the engine of JavaScript is safe, and far faster than RE2. */
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

function textFields(schema: DescMessage): string[] {
  return schema.fields
    .filter((field) => field.fieldKind === 'scalar' && field.scalar === ScalarType.STRING)
    .map((field) => field.localName)
}

function trim(message: Record<string, unknown>, names: readonly string[]): void {
  for (const name of names) {
    const text = message[name]
    if (typeof text === 'string' && /^\s|\s$/u.test(text)) message[name] = text.trim()
  }
}

/** Adds the faults of a message, whose field names begin with the path. */
type FindFaults = (message: Message, path: string, faults: FieldFault[]) => void

/**
 * Finds what PostgreSQL cannot store: texts with U+0000 or half a surrogate pair, and times out of range. Lists of
 * messages are skipped: the items of a batch are checked one by one.
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
        faults.push({ field: path + jsonName, message: 'must be a time of the years 1 to 9999' })
      }
    }
  }
  const isText = 'scalar' in field && field.scalar === ScalarType.STRING
  if (!isText) return undefined
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

/** The range of a Timestamp in protobuf; parsers of the binary form do not enforce it. */
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
  // A rule over several fields names the one at fault in its id: "id_type.palmpay".
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
 * The patterns of the contract in words. They stay patterns there, not CEL with a message: protovalidate
 * checks those without its interpreter of CEL, and recorded payments have some.
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

/** Texts of protovalidate, and how they are worded here. */
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

/** The text of a violation for the caller. A rule with a message of its own has that. */
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
  // JSON knows only its fields.
  return `is required: one of ${last.fields.map(({ jsonName }) => jsonName).join(', ')}`
}

/** The rules of enums state numbers, which JSON does not have. */
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
