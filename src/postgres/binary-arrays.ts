/**
 * Arrays as binary parameters of PostgreSQL. pg sends a Buffer unchanged, so a batch of rows is neither
 * quoted here nor parsed by the server.
 *
 * Format: `array_send` in the server's arrayfuncs.c: dimensions, null flag, element type, then
 * length and lower bound of the dimension, then each element with its length (-1: null).
 */
const HEADER_BYTES = 20
const POSTGRES_EPOCH_MS = 946_684_800_000

function header(buffer: Buffer, elementOid: number, length: number, hasNull: boolean): void {
  buffer.writeInt32BE(1, 0)
  buffer.writeInt32BE(hasNull ? 1 : 0, 4)
  buffer.writeInt32BE(elementOid, 8)
  buffer.writeInt32BE(length, 12)
  buffer.writeInt32BE(1, 16)
}

/** text[] */
export function textArray(values: readonly (string | null)[]): Buffer {
  let size = HEADER_BYTES
  let hasNull = false
  for (const value of values) {
    size += 4 + (value === null ? 0 : Buffer.byteLength(value))
    if (value === null) hasNull = true
  }
  const buffer = Buffer.allocUnsafe(size)
  header(buffer, 25, values.length, hasNull)
  let at = HEADER_BYTES
  for (const value of values) {
    const written = value === null ? -1 : buffer.write(value, at + 4)
    buffer.writeInt32BE(written, at)
    at += 4 + Math.max(written, 0)
  }
  return buffer
}

/** boolean[] */
export function booleanArray(values: readonly (boolean | null)[]): Buffer {
  const buffer = Buffer.allocUnsafe(HEADER_BYTES + 5 * values.length)
  let at = HEADER_BYTES
  let hasNull = false
  for (const value of values) {
    at = buffer.writeInt32BE(value === null ? -1 : 1, at)
    if (value === null) hasNull = true
    else at = buffer.writeUInt8(value ? 1 : 0, at)
  }
  header(buffer, 16, values.length, hasNull)
  return buffer.subarray(0, at)
}

/** bytea[] */
export function byteaArray(values: readonly (Uint8Array | null)[]): Buffer {
  let size = HEADER_BYTES
  let hasNull = false
  for (const value of values) {
    size += 4 + (value?.length ?? 0)
    if (value === null) hasNull = true
  }
  const buffer = Buffer.allocUnsafe(size)
  header(buffer, 17, values.length, hasNull)
  let at = HEADER_BYTES
  for (const value of values) {
    buffer.writeInt32BE(value?.length ?? -1, at)
    if (value) buffer.set(value, at + 4)
    at += 4 + (value?.length ?? 0)
  }
  return buffer
}

function eightByteArray<T>(
  elementOid: number,
  values: readonly T[],
  write: (buffer: Buffer, value: T, at: number) => void,
): Buffer {
  const buffer = Buffer.allocUnsafe(HEADER_BYTES + 12 * values.length)
  header(buffer, elementOid, values.length, false)
  let at = HEADER_BYTES
  for (const value of values) {
    buffer.writeInt32BE(8, at)
    write(buffer, value, at + 4)
    at += 12
  }
  return buffer
}

/** bigint[] */
export function bigintArray(values: readonly bigint[]): Buffer {
  return eightByteArray(20, values, (buffer, value, at) => buffer.writeBigInt64BE(value, at))
}

/** timestamptz[] @param values milliseconds since the Unix epoch */
export function timestampArray(values: readonly number[]): Buffer {
  return eightByteArray(1184, values, (buffer, value, at) => {
    const milliseconds = Math.round(value - POSTGRES_EPOCH_MS)
    const microseconds = milliseconds * 1_000
    if (!Number.isSafeInteger(microseconds)) {
      buffer.writeBigInt64BE(BigInt(milliseconds) * 1_000n, at)
      return
    }
    // Safe integers are written as two halves: a bigint for each would cost more than all the rest.
    const high = Math.floor(microseconds / 2 ** 32)
    buffer.writeInt32BE(high, at)
    buffer.writeUInt32BE(microseconds - high * 2 ** 32, at + 4)
  })
}

/** integer[] */
export function integerArray(values: readonly number[]): Buffer {
  const buffer = Buffer.allocUnsafe(HEADER_BYTES + 8 * values.length)
  header(buffer, 23, values.length, false)
  let at = HEADER_BYTES
  for (const value of values) {
    at = buffer.writeInt32BE(4, at)
    at = buffer.writeInt32BE(value, at)
  }
  return buffer
}
