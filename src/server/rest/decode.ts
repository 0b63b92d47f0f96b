import {
  create,
  type DescField,
  type DescMessage,
  getOption,
  type Message,
  ScalarType,
} from '@bufbuild/protobuf'
import { decimal } from '../../../gen/inflow/type/v1/decimal_pb.ts'
import type { Decoded } from '../rpc/invokers.ts'
import type { FindUnknown } from '../rpc/unknown-fields.ts'

export type Decoder = (body: Readonly<Record<string, unknown>>) => Decoded

/** What is wrong with a value. */
interface Fault {
  /** Where it is in the field, as `[0].name`; empty: it is the field. */
  readonly at: string
  readonly message: string
}

/** A value of a field, or what is wrong with it. */
type Result = { readonly value: unknown } | { readonly faults: readonly Fault[] }

type Read = (value: unknown) => Result

/**
 * Compiles a reader of JSON objects. protobuf's own parser stops at the first mistyped field; this one
 * finds them all. Null means absent.
 *
 * @param findUnknown finds the fields that are refused although the schema does not have them
 * @throws for a schema with fields of types that REST requests do not use
 */
export function compileDecoder(schema: DescMessage, findUnknown: FindUnknown = () => []): Decoder {
  const read = compileObject(schema)
  return (body) => {
    const { message, faults } = read(body)
    const mistyped = faults.map((each) => ({ field: each.at, message: each.message }))
    return { message, fieldFaults: [...findUnknown(body), ...mistyped] }
  }
}

function compileObject(schema: DescMessage) {
  const fields = schema.fields.map((field) => ({
    name: field.jsonName,
    // As in protobuf's JSON: what lists return is named next_page_token, and may be sent as page_token.
    otherName: field.name,
    localName: field.localName,
    group: field.oneof?.localName,
    read: readerOf(field),
  }))
  return (body: Readonly<Record<string, unknown>>) => {
    const message = create(schema) as Message & Record<string, unknown>
    const faults: Fault[] = []
    let given: Record<string, string> | undefined
    for (const { name, otherName, localName, group, read } of fields) {
      const key = Object.hasOwn(body, name) ? name : otherName
      const raw = Object.hasOwn(body, key) ? body[key] : undefined
      if (raw === undefined || raw === null) continue
      const first = group && given?.[group]
      if (first) faults.push({ at: name, message: `must not be given together with ${first}` })
      if (group) given = { ...given, [group]: name }
      const result = read(raw)
      if ('faults' in result) faults.push(...within(name, result.faults))
      else if (group) message[group as never] = { case: localName, value: result.value } as never
      else message[localName as never] = result.value as never
    }
    return { message, faults }
  }
}

function within(path: string, faults: readonly Fault[]): Fault[] {
  return faults.map(({ at, message }) => ({ at: path + at, message }))
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

const expect = (expected: string): Result => ({
  faults: [{ at: '', message: `must be ${expected}` }],
})

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
    const { message, faults } = read(value)
    return faults.length > 0 ? { faults: within('.', faults) } : { value: message }
  }
}

/** A list of objects. */
function readList(schema: DescMessage): Read {
  const read = compileObject(schema)
  return (value) => {
    if (!Array.isArray(value) || !value.every(isObject)) return expect('a list of objects')
    const items = value.map((item) => read(item))
    const faults = items.flatMap((item, index) => within(`[${index}].`, item.faults))
    return faults.length > 0 ? { faults } : { value: items.map(({ message }) => message) }
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
