import { isBlank } from './line.ts'

/** Beyond it, numbers are not exact. */
const DIGITS_MAX = 12

const SEMICOLON = 0x3b

/**
 * Reads the line before a chunk: its size in hexadecimal, and extensions that are ignored.
 * RFC 9112, 7.1.
 *
 * @returns bytes; undefined when it is no such line
 */
export function chunkSize(bytes: Buffer, from: number, end: number): number | undefined {
  let size = 0
  let at = from
  while (at < end) {
    const digit = hexDigit(bytes[at] ?? 0)
    if (digit === undefined) break
    size = size * 16 + digit
    at += 1
  }
  if (at === from || at - from > DIGITS_MAX) return undefined
  if (at === end) return size
  while (at < end && isBlank(bytes[at])) at += 1
  return bytes[at] === SEMICOLON ? size : undefined
}

function hexDigit(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined
}
