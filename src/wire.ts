import {
  type DescField,
  type DescMessage,
  type Message,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf'

/** Writes a message in protobuf's binary form. The bytes are the caller's own. */
export type WireEncoder = (message: Message) => Buffer

/** Bytes being written. It grows; nested lengths are put in front of what was written after them. */
interface Sink {
  bytes: Buffer
  at: number
  /** Whether a message had fields that its schema does not know. */
  foreign: boolean
}

/** Writes one field of a message, if it is set. */
type WriteField = (sink: Sink, message: Readonly<Record<string, unknown>>) => void

/** Writes one value, without its tag. */
type WriteValue = (sink: Sink, value: unknown) => void

/** What a varint takes at the most. */
const VARINT_BYTES = 10

const VARINT = 0
const DELIMITED = 2

/**
 * Compiles a writer for one schema. The library looks every field up anew for every message, which
 * costs more than anything else that happens to a payment in this process; this knows the fields.
 *
 * Field types that the contract's hot messages do not have are left to the library, and so are
 * messages that carry fields unknown to the schema, as those of a newer version do.
 */
export function compileWireEncoder(schema: DescMessage): WireEncoder {
  const write = compileMessage(schema, new Map())
  if (write === undefined) return (message) => Buffer.from(toBinary(schema, message))
  const sink: Sink = { bytes: Buffer.allocUnsafe(4_096), at: 0, foreign: false }
  return (message) => {
    sink.at = 0
    sink.foreign = false
    write(sink, message)
    if (sink.foreign) return Buffer.from(toBinary(schema, message))
    return Buffer.from(sink.bytes.subarray(0, sink.at))
  }
}

function compileMessage(
  schema: DescMessage,
  known: Map<DescMessage, WriteValue>,
): WriteValue | undefined {
  const done = known.get(schema)
  if (done !== undefined) return done
  const fields: WriteField[] = []
  const write: WriteValue = (sink, message) => {
    if ((message as Message).$unknown !== undefined) sink.foreign = true
    for (const field of fields) field(sink, message as Readonly<Record<string, unknown>>)
  }
  known.set(schema, write)
  for (const field of schema.fields.toSorted((a, b) => a.number - b.number)) {
    const compiled = compileField(field, known)
    if (compiled === undefined) return undefined
    fields.push(compiled)
  }
  return write
}

function compileField(
  field: DescField,
  known: Map<DescMessage, WriteValue>,
): WriteField | undefined {
  const { localName, oneof } = field
  const value = compileValue(field, known)
  if (value === undefined) return undefined
  const tag = field.number * 8 + value.wireType
  const put = (sink: Sink, item: unknown): void => {
    writeVarint(sink, tag)
    value.write(sink, item)
  }
  if (field.fieldKind === 'list') {
    return (sink, message) => {
      for (const item of message[localName] as readonly unknown[]) put(sink, item)
    }
  }
  if (oneof !== undefined) {
    return (sink, message) => {
      const member = message[oneof.localName] as { case: unknown; value: unknown }
      if (member.case === localName) put(sink, member.value)
    }
  }
  const { unset } = value
  return (sink, message) => {
    const item = message[localName]
    if (item !== undefined && item !== unset) put(sink, item)
  }
}

/** How a value is written, and which value need not be. */
interface CompiledValue {
  readonly wireType: number
  readonly write: WriteValue
  readonly unset: unknown
}

function compileValue(
  field: DescField,
  known: Map<DescMessage, WriteValue>,
): CompiledValue | undefined {
  const kind = field.fieldKind === 'list' ? field.listKind : field.fieldKind
  if (kind === 'message' && field.message !== undefined) {
    const write = field.delimitedEncoding ? undefined : compileMessage(field.message, known)
    return write && { wireType: DELIMITED, write: delimited(write), unset: undefined }
  }
  // Numbers in lists are packed, and a field with presence is written also when it is zero.
  if (
    field.fieldKind === 'list' ? field.scalar !== ScalarType.STRING : field.proto.proto3Optional
  ) {
    return undefined
  }
  if (kind === 'enum') return { wireType: VARINT, write: writeInteger, unset: 0 }
  if (field.oneof !== undefined) {
    return field.scalar === ScalarType.STRING
      ? { wireType: DELIMITED, write: writeText, unset: undefined }
      : undefined
  }
  switch (field.scalar) {
    case ScalarType.STRING:
      return { wireType: DELIMITED, write: writeText, unset: '' }
    case ScalarType.BOOL:
      return { wireType: VARINT, write: writeBoolean, unset: false }
    case ScalarType.INT32:
      return { wireType: VARINT, write: writeInteger, unset: 0 }
    case ScalarType.INT64:
      return { wireType: VARINT, write: writeBigInteger, unset: 0n }
    default:
      return undefined
  }
}

function reserve(sink: Sink, bytes: number): void {
  if (sink.at + bytes <= sink.bytes.length) return
  const larger = Buffer.allocUnsafe(Math.max(sink.bytes.length * 2, sink.at + bytes))
  sink.bytes.copy(larger, 0, 0, sink.at)
  sink.bytes = larger
}

/** @param value a whole number from 0 to 2^53 */
function writeVarint(sink: Sink, value: number): void {
  reserve(sink, VARINT_BYTES)
  let rest = value
  while (rest > 127) {
    sink.bytes[sink.at++] = (rest % 128) | 128
    rest = Math.floor(rest / 128)
  }
  sink.bytes[sink.at++] = rest
}

const writeInteger: WriteValue = (sink, value) => {
  if ((value as number) >= 0) writeVarint(sink, value as number)
  else writeBigInteger(sink, BigInt(value as number))
}

const writeBigInteger: WriteValue = (sink, value) => {
  const whole = value as bigint
  if (whole >= 0n && whole <= 9_007_199_254_740_991n) {
    writeVarint(sink, Number(whole))
    return
  }
  reserve(sink, VARINT_BYTES)
  let rest = BigInt.asUintN(64, whole)
  while (rest > 127n) {
    sink.bytes[sink.at++] = Number(rest & 127n) | 128
    rest >>= 7n
  }
  sink.bytes[sink.at++] = Number(rest)
}

const writeBoolean: WriteValue = (sink, value) => writeVarint(sink, value ? 1 : 0)

const writeText: WriteValue = (sink, value) => {
  const text = value as string
  // Three bytes a code unit are the most that UTF-8 takes.
  reserve(sink, VARINT_BYTES + text.length * 3)
  if (text.length < 43) {
    // So short that its length takes one byte whatever it holds.
    const written = writeShort(sink.bytes, text, sink.at + 1)
    sink.bytes[sink.at] = written
    sink.at += 1 + written
    return
  }
  writeVarint(sink, Buffer.byteLength(text))
  sink.at += sink.bytes.write(text, sink.at)
}

/** Leaving for the runtime's writer costs more than the characters of a short text. */
function writeShort(bytes: Buffer, text: string, at: number): number {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 127) return bytes.write(text, at)
    bytes[at + i] = code
  }
  return text.length
}

function delimited(write: WriteValue): WriteValue {
  return (sink, message) => {
    // Nearly all are shorter than 128 bytes; a longer one is moved to make room for its length.
    const start = sink.at
    reserve(sink, 1)
    sink.at += 1
    write(sink, message)
    const length = sink.at - start - 1
    if (length < 128) {
      sink.bytes[start] = length
      return
    }
    reserve(sink, VARINT_BYTES)
    const bytes = length < 16_384 ? 2 : length < 2_097_152 ? 3 : 4
    sink.bytes.copyWithin(start + bytes, start + 1, sink.at)
    const end = start + bytes + length
    sink.at = start
    writeVarint(sink, length)
    sink.at = end
  }
}
