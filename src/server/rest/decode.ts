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
    localName: field.localName,
    read: readerOf(field),
  }))
  const names = new Set(fields.map(({ name }) => name))
  return (body) => {
    const message = create(schema) as Message & Record<string, unknown>
    const fieldFaults: FieldFault[] = unknown === 'refuse' ? unknownFields(body, names) : []
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

/** How many unknown fields an error names. */
const UNKNOWN_MAX = 20

function unknownFields(body: object, names: ReadonlySet<string>): FieldFault[] {
  const unknown = Object.keys(body).filter((name) => !names.has(name))
  const message = `is not a field of this request; known: ${[...names].join(', ')}`
  return unknown.slice(0, UNKNOWN_MAX).map((name) => ({ field: name.slice(0, 100), message }))
}

function readerOf(field: DescField): Read {
  if (field.fieldKind === 'scalar') {
    if (field.scalar === ScalarType.STRING) return readText
    if (field.scalar === ScalarType.INT32) return (value) => readWhole(value, 2 ** 31 - 1, Number)
    if (field.scalar === ScalarType.INT64) {
      return (value) => readWhole(value, Number.MAX_SAFE_INTEGER, BigInt)
    }
  }
  throw new Error(`${field.parent.typeName}.${field.name} has a type that REST requests do not use`)
}

const readText: Read = (value) => (typeof value === 'string' ? { value } : { expected: 'a string' })

function readWhole(value: unknown, max: number, convert: (value: number) => unknown) {
  const fits = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= max
  return fits ? { value: convert(value) } : { expected: 'a whole number' }
}
