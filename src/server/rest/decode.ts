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

/** A value of a field, or what it should have been. */
type Read = (value: unknown) => { readonly value: unknown } | { readonly expected: string }

/**
 * Compiles a reader of flat JSON objects. protobuf's own parser stops at the first mistyped field;
 * this one finds them all. Null means absent.
 *
 * @param unknown whether unknown fields are ignored, or are faults
 * @throws for a schema with fields that a flat object cannot hold
 */
export function compileDecoder(
  schema: DescMessage,
  unknown: 'ignore' | 'refuse' = 'ignore',
): Decoder {
  const fields = schema.fields.map((field) => ({
    name: field.jsonName,
    // As in protobuf's JSON: what lists return is named next_page_token, and may be sent as page_token.
    otherName: field.name,
    localName: field.localName,
    read: readerOf(field),
  }))
  const names = new Set(fields.map(({ name }) => name))
  const accepted = new Set(fields.flatMap(({ name, otherName }) => [name, otherName]))
  return (body) => {
    const message = create(schema) as Message & Record<string, unknown>
    const fieldFaults: FieldFault[] =
      unknown === 'refuse' ? unknownFields(body, accepted, names) : []
    for (const field of fields) {
      const name = Object.hasOwn(body, field.name) ? field.name : field.otherName
      const raw = Object.hasOwn(body, name) ? body[name] : undefined
      if (raw === undefined || raw === null) continue
      const read = field.read(raw)
      if ('value' in read) message[field.localName as never] = read.value as never
      else fieldFaults.push({ field: field.name, message: `must be ${read.expected}` })
    }
    return { message, fieldFaults }
  }
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
  if (field.fieldKind === 'list' && field.listKind === 'scalar') {
    if (field.scalar === ScalarType.STRING) return readTextList
  }
  throw new Error(`${field.parent.typeName}.${field.name} has a type that REST requests do not use`)
}

const readText: Read = (value) => (typeof value === 'string' ? { value } : { expected: 'a string' })

const readTextList: Read = (value) =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')
    ? { value }
    : { expected: 'a list of strings' }

/** A number becomes the text that JavaScript prints for it: rules refuse what is no plain decimal. */
const readDecimal: Read = (value) => {
  if (typeof value === 'string') return { value }
  return typeof value === 'number'
    ? { value: `${value}` }
    : { expected: 'a decimal string or a number' }
}

const readBoolean: Read = (value) =>
  typeof value === 'boolean' ? { value } : { expected: 'true or false' }

function readWhole(value: unknown, max: number, convert: (value: number) => unknown) {
  const fits = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= max
  return fits ? { value: convert(value) } : { expected: 'a whole number' }
}
