import {
  type DescField,
  type DescMessage,
  fromBinary,
  type MessageShape,
  ScalarType,
} from '@bufbuild/protobuf'

/** Reads a message from protobuf's binary form. @throws as the library does, when it is malformed */
export type WireDecoder<S extends DescMessage> = (bytes: Uint8Array) => MessageShape<S>

/** Bytes being read. */
interface Source {
  readonly bytes: Buffer
  at: number
}

type Fields = Record<string, unknown>

/** Reads one value. */
type ReadValue = (source: Source) => unknown

/** Reads one field into its message. */
type ReadField = (source: Source, message: Fields) => void

/** How messages of one schema are read. */
interface Compiled {
  readonly make: () => Fields
  /** By tag. */
  readonly fields: Map<number, ReadField>
}

/** The input is not what a plain writer of this schema makes; the library says what it means. */
class Unusual extends Error {}

const UNUSUAL = new Unusual()

const VARINT = 0
const DELIMITED = 2

/**
 * Compiles a reader for one schema, for the same reason as `compileWireEncoder`: the library looks
 * every field up anew.
 *
 * It reads what writers usually make. Whatever else comes (fields that the schema does not know,
 * fields twice, broken bytes, text that is not UTF-8) is left to the library, so that both always
 * say the same.
 */
export function compileWireDecoder<S extends DescMessage>(schema: S): WireDecoder<S> {
  const compiled = compileMessage(schema, new Map())
  if (compiled === undefined) return (bytes) => fromBinary(schema, bytes)
  return (bytes) => {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    try {
      return readMessage(compiled, { bytes: buffer, at: 0 }, buffer.length) as MessageShape<S>
    } catch (error) {
      if (error !== UNUSUAL) throw error
      return fromBinary(schema, bytes)
    }
  }
}

function readMessage({ make, fields }: Compiled, source: Source, end: number): Fields {
  const message = make()
  while (source.at < end) {
    const field = fields.get(readVarint(source))
    if (field === undefined) throw UNUSUAL
    field(source, message)
  }
  if (source.at !== end) throw UNUSUAL
  return message
}

/** @returns undefined when the schema has fields that this does not read */
function compileMessage(
  schema: DescMessage,
  known: Map<DescMessage, Compiled>,
): Compiled | undefined {
  const done = known.get(schema)
  if (done !== undefined) return done
  const fields = new Map<number, ReadField>()
  const compiled = { make: makerOf(schema), fields }
  known.set(schema, compiled)
  for (const field of schema.fields) {
    const value = compileValue(field, known)
    if (value === undefined) return undefined
    fields.set(field.number * 8 + value.wireType, compileField(field, value.read))
  }
  return compiled
}

/** Makes empty messages: what protobuf-es makes of one, without looking at the schema each time. */
function makerOf(schema: DescMessage): () => Fields {
  const { typeName: $typeName } = schema
  const scalars: [string, unknown][] = []
  const lists: string[] = []
  for (const { localName, fieldKind, oneof, proto, ...field } of schema.fields) {
    if (fieldKind === 'list') lists.push(localName)
    else if (fieldKind === 'enum' && !proto.proto3Optional && !oneof) scalars.push([localName, 0])
    else if (fieldKind === 'scalar' && !proto.proto3Optional && !oneof) {
      scalars.push([localName, 'scalar' in field ? zeroOf(field.scalar as ScalarType) : undefined])
    }
  }
  const oneofs = schema.oneofs.map(({ localName }) => localName)
  return () => {
    const message: Fields = { $typeName }
    for (const [name, zero] of scalars) message[name] = zero
    for (const name of lists) message[name] = []
    for (const name of oneofs) message[name] = { case: undefined }
    return message
  }
}

function zeroOf(scalar: ScalarType): unknown {
  if (scalar === ScalarType.STRING) return ''
  if (scalar === ScalarType.BOOL) return false
  return scalar === ScalarType.INT64 ? 0n : 0
}

function compileField(field: DescField, read: ReadValue): ReadField {
  const { localName, oneof } = field
  if (field.fieldKind === 'list') {
    return (source, message) => {
      ;(message[localName] as unknown[]).push(read(source))
    }
  }
  if (oneof !== undefined) {
    return (source, message) => {
      if ((message[oneof.localName] as { case: unknown }).case !== undefined) throw UNUSUAL
      message[oneof.localName] = { case: localName, value: read(source) }
    }
  }
  if (field.fieldKind === 'message') {
    return (source, message) => {
      if (message[localName] !== undefined) throw UNUSUAL
      message[localName] = read(source)
    }
  }
  return (source, message) => {
    message[localName] = read(source)
  }
}

function compileValue(
  field: DescField,
  known: Map<DescMessage, Compiled>,
): { readonly wireType: number; readonly read: ReadValue } | undefined {
  if (field.message !== undefined && field.fieldKind !== 'map') {
    // Messages of google.protobuf that have a form of their own in the library.
    const { typeName } = field.message
    if (/^google\.protobuf\.(?!Timestamp$|Duration$|FieldMask$)/.test(typeName)) return undefined
    const compiled = field.delimitedEncoding ? undefined : compileMessage(field.message, known)
    return compiled && { wireType: DELIMITED, read: (source) => readNested(source, compiled) }
  }
  if (field.fieldKind === 'enum') return { wireType: VARINT, read: readInt32 }
  if (field.fieldKind === 'list') {
    // Numbers in lists are packed.
    return field.listKind === 'scalar' && field.scalar === ScalarType.STRING
      ? { wireType: DELIMITED, read: readText }
      : undefined
  }
  if (field.fieldKind !== 'scalar') return undefined
  switch (field.scalar) {
    case ScalarType.STRING:
      return { wireType: DELIMITED, read: readText }
    case ScalarType.BOOL:
      return { wireType: VARINT, read: (source) => readVarint(source) !== 0 }
    case ScalarType.INT32:
      return { wireType: VARINT, read: readInt32 }
    case ScalarType.INT64:
      return field.longAsString ? undefined : { wireType: VARINT, read: readInt64 }
    default:
      return undefined
  }
}

function readNested(source: Source, compiled: Compiled): Fields {
  const length = readVarint(source)
  const end = source.at + length
  if (end > source.bytes.length) throw UNUSUAL
  return readMessage(compiled, source, end)
}

/** A whole number from 0 to 2^53; what is larger is read by `readInt64` or is unusual. */
function readVarint(source: Source): number {
  const { bytes } = source
  let value = 0
  let scale = 1
  for (let count = 0; count < 7; count++) {
    const byte = bytes[source.at++]
    if (byte === undefined) throw UNUSUAL
    value += (byte & 127) * scale
    if (byte < 128) return value
    scale *= 128
  }
  throw UNUSUAL
}

function readInt32(source: Source): number {
  const value = readVarint(source)
  // Negative ones take ten bytes.
  if (value > 0x7fff_ffff) throw UNUSUAL
  return value
}

function readInt64(source: Source): bigint {
  return BigInt(readVarint(source))
}

function readText(source: Source): string {
  const length = readVarint(source)
  const start = source.at
  source.at += length
  if (source.at > source.bytes.length) throw UNUSUAL
  const text = source.bytes.toString('utf8', start, source.at)
  // Perhaps the mark of bytes that are no text.
  if (text.includes('\ufffd')) throw UNUSUAL
  return text
}
