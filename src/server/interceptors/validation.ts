import { type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf'
import type { Path } from '@bufbuild/protobuf/reflect'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { createValidator, type Validator, type Violation } from '@bufbuild/protovalidate'
import type { Interceptor, StreamRequest } from '@connectrpc/connect'
import { assert, type FieldFault, invalidFields } from '../../core/errors.ts'
import { fieldFaultsOf } from '../rpc/invokers.ts'
import { wordsOf } from './rule-words.ts'

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
