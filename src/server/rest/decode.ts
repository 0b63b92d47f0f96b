import {
  create,
  type DescField,
  type DescMessage,
  type Message,
  ScalarType,
} from '@bufbuild/protobuf'
import type { FieldFault } from '../../core/errors.ts'
import type { Decoded } from '../rpc/invokers.ts'

export type Decoder = (body: Readonly<Record<string, unknown>>) => Decoded

/** A value of a field, or what it should have been. */
type Read = (value: unknown) => { readonly value: unknown } | { readonly expected: string }

/**
 * Compiles a reader of flat JSON objects. protobuf's own parser stops at the first mistyped field;
 * this one finds them all. Unknown fields are ignored, and null means absent.
 *
 * @throws for a schema with fields that a flat object cannot hold
 */
export function compileDecoder(schema: DescMessage): Decoder {
  const fields = schema.fields.map((field) => ({
    name: field.jsonName,
    localName: field.localName,
    read: readerOf(field),
  }))
  return (body) => {
    const message = create(schema) as Message & Record<string, unknown>
    const fieldFaults: FieldFault[] = []
    for (const field of fields) {
      const raw = Object.hasOwn(body, field.name) ? body[field.name] : undefined
      if (raw === undefined || raw === null) continue
      const read = field.read(raw)
      if ('value' in read) message[field.localName as never] = read.value as never
      else fieldFaults.push({ field: field.name, message: `must be ${read.expected}` })
    }
    return { message, fieldFaults }
  }
}

function readerOf(field: DescField): Read {
  if (field.fieldKind === 'scalar') {
    if (field.scalar === ScalarType.STRING) return readText
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

function readWhole(value: unknown, max: number, convert: (value: number) => unknown) {
  const fits = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= max
  return fits ? { value: convert(value) } : { expected: 'a whole number' }
}
