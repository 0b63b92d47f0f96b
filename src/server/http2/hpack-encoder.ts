import { STATIC_TABLE } from './hpack-fields.ts'

const INDEXES = new Map(STATIC_TABLE.map((field, at) => [`${field.name}\0${field.value}`, at + 1]))

/** The first of each name. */
const NAMES = new Map(STATIC_TABLE.map((field, at) => [field.name, at + 1] as const).reverse())

/**
 * A block of headers that leaves the other end's table as it is, so that the bytes are the same for
 * every connection, and may be made once. Names are in lower case; texts are Latin-1.
 */
export function encodeHeaders(fields: Iterable<readonly [name: string, value: string]>): Buffer {
  const parts: Buffer[] = []
  for (const [name, value] of fields) {
    const index = INDEXES.get(`${name}\0${value}`)
    if (index !== undefined) {
      parts.push(encodeInteger(index, 0x80, 0x7f))
      continue
    }
    const known = NAMES.get(name) ?? 0
    parts.push(encodeInteger(known, 0, 0x0f))
    if (known === 0) parts.push(encodeText(name))
    parts.push(encodeText(value))
  }
  return Buffer.concat(parts)
}

/** A text after its length (RFC 7541, section 5.2). */
export function encodeText(text: string): Buffer {
  return Buffer.concat([encodeInteger(text.length, 0, 0x7f), Buffer.from(text, 'latin1')])
}

/** @param mask the bits of the first octet that belong to it (RFC 7541, section 5.1) */
function encodeInteger(value: number, pattern: number, mask: number): Buffer {
  if (value < mask) return Buffer.of(pattern | value)
  const octets = [pattern | mask]
  let rest = value - mask
  for (; rest > 127; rest = Math.floor(rest / 128)) octets.push((rest & 127) | 128)
  octets.push(rest)
  return Buffer.from(octets)
}
