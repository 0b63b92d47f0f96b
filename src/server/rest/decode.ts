import {
  create,
  type DescField,
  type DescMessage,
  getOption,
  type Message,
  ScalarType,
} from '@bufbuild/protobuf'
import { decimal } from '../../../gen/inflow/type/v1/decimal_pb.ts'
import type { FieldFault } from '../../core/errors.ts'
import type { Decoded } from '../rpc/invokers.ts'

export type Decoder = (body: Readonly<Record<string, unknown>>) => Decoded

/** What a value should have been. */
interface Mistyped {
  /** Where it is in the field, as `[0].name`; empty: it is the field. */
  readonly at: string
  readonly expected: string
}

/** A value of a field, or what should have been there. */
type Result = { readonly value: unknown } | { readonly mistyped: readonly Mistyped[] }

type Read = (value: unknown) => Result

/**
 * Compiles a reader of JSON objects. protobuf's own parser stops at the first mistyped field; this one
 * finds them all. Null means absent.
 *
 * @param unknown whether unknown fields are ignored, or are faults
 * @throws for a schema with fields of types that REST requests do not use
 */
export function compileDecoder(
  schema: DescMessage,
  unknown: 'ignore' | 'refuse' = 'ignore',
): Decoder {
  const read = compileObject(schema)
  const names = new Set(schema.fields.map((field) => field.jsonName))
  const accepted = new Set(schema.fields.flatMap((field) => [field.jsonName, field.name]))
  return (body) => {
    const { message, mistyped } = read(body)
    const fieldFaults = mistyped.map(({ at, expected }) => {
      return { field: at, message: `must be ${expected}` }
    })
    const refused = unknown === 'refuse' ? unknownFields(body, accepted, names) : []
    return { message, fieldFaults: [...refused, ...fieldFaults] }
  }
}

function compileObject(schema: DescMessage) {
  const fields = schema.fields.map((field) => ({
    name: field.jsonName,
    // As in protobuf's JSON: what lists return is named next_page_token, and may be sent as page_token.
    otherName: field.name,
    localName: field.localName,
    read: readerOf(field),
  }))
  return (body: Readonly<Record<string, unknown>>) => {
    const message = create(schema) as Message & Record<string, unknown>
    const mistyped: Mistyped[] = []
    for (const field of fields) {
      const name = Object.hasOwn(body, field.name) ? field.name : field.otherName
      const raw = Object.hasOwn(body, name) ? body[name] : undefined
      if (raw === undefined || raw === null) continue
      const read = field.read(raw)
      if ('value' in read) message[field.localName as never] = read.value as never
      else mistyped.push(...within(field.name, read.mistyped))
    }
    return { message, mistyped }
  }
}

function within(path: string, mistyped: readonly Mistyped[]): Mistyped[] {
  return mistyped.map(({ at, expected }) => ({ at: path + at, expected }))
}

/** How many unknown fields an error names. */
const UNKNOWN_MAX = 20

function unknownFields(
  body: object,
  accepted: ReadonlySet<string>,
  names: ReadonlySet<string>,
): FieldFault[] {
  const unknown = Object.keys(body).filter((name) => !accepted.has(name))
  const known = names.size === 0 ? 'it has none' : `known: ${[...names].join(', ')}`
  const message = `is not a field of this request; ${known}`
  return unknown.slice(0, UNKNOWN_MAX).map((name) => ({ field: name.slice(0, 100), message }))
}

function readerOf(field: DescField): Read {
  if (field.fieldKind === 'scalar') {
    if (field.scalar === ScalarType.STRING)
      return getOption(field, decimal) ? readDecimal : readText
    if (field.scalar === ScalarType.BOOL) return readBoolean
    if (field.scalar === ScalarType.INT32) return (value) => readWhole(value, 2 ** 31 - 1, Number)
    if (field.scalar === ScalarType.INT64) {
      return (value) => readWhole(value, Number.MAX_SAFE_INTEGER, BigInt)
    }
  }
  if (field.fieldKind === 'list' && field.listKind === 'message') return readList(field.message)
  if (field.fieldKind === 'message') return readMessage(field.message)
  if (field.fieldKind === 'list' && field.listKind === 'scalar') {
    if (field.scalar === ScalarType.STRING) return readTextList
  }
  if (field.fieldKind === 'map' && field.mapKind === 'scalar') return readTexts
  throw new Error(`${field.parent.typeName}.${field.name} has a type that REST requests do not use`)
}

const expect = (expected: string): Result => ({ mistyped: [{ at: '', expected }] })

const readText: Read = (value) => (typeof value === 'string' ? { value } : expect('a string'))

const readBoolean: Read = (value) =>
  typeof value === 'boolean' ? { value } : expect('true or false')

const readTextList: Read = (value) =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')
    ? { value }
    : expect('a list of strings')

/** A number becomes the text that JavaScript prints for it: rules refuse what is no plain decimal. */
const readDecimal: Read = (value) => {
  if (typeof value === 'string') return { value }
  return typeof value === 'number' ? { value: `${value}` } : expect('a decimal string or a number')
}

function readWhole(value: unknown, max: number, convert: (value: number) => unknown): Result {
  const fits = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= max
  return fits ? { value: convert(value) } : expect('a whole number')
}

/** An object whose values are texts. */
const readTexts: Read = (value) => {
  const isOfTexts =
    isObject(value) && Object.values(value).every((text) => typeof text === 'string')
  return isOfTexts ? { value: { ...value } } : expect('an object of strings')
}

function readMessage(schema: DescMessage): Read {
  const read = compileObject(schema)
  return (value) => {
    if (!isObject(value)) return expect('an object')
    const { message, mistyped } = read(value)
    return mistyped.length > 0 ? { mistyped: within('.', mistyped) } : { value: message }
  }
}

/** A list of objects. */
function readList(schema: DescMessage): Read {
  const read = compileObject(schema)
  return (value) => {
    if (!Array.isArray(value) || !value.every(isObject)) return expect('a list of objects')
    const items = value.map(read)
    const mistyped = items.flatMap((item, index) => within(`[${index}].`, item.mistyped))
    return mistyped.length > 0 ? { mistyped } : { value: items.map(({ message }) => message) }
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
