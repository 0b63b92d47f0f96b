import { HeaderField, STATIC_TABLE } from './hpack-fields.ts'
import { readHuffman } from './huffman.ts'
import { HEADER_FIELDS_MAX, HEADER_LIST_BYTES_MAX } from './limits.ts'
import { CODE, ConnectionError } from './protocol.ts'

/** The size of the table that clients may fill; the standard's own, which we do not change. */
const TABLE_BYTES_MAX = 4_096

/** Octets of an integer, after its first: more than 2^28 is no length of ours. */
const INTEGER_OCTETS_MAX = 4

/** The fields of a block; undefined when there are more than we take. */
export type HeaderList = HeaderField[] | undefined

/** Reads blocks of headers (RFC 7541), all of a connection's in their order. */
export class HpackDecoder {
  /** The newest last. */
  readonly #table: HeaderField[] = []
  #tableBytes = 0
  #tableBytesMax = TABLE_BYTES_MAX
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0
  #end = 0

  /** @throws ConnectionError COMPRESSION_ERROR: after that, no other block can be read either */
  decode(bytes: Buffer, start: number, end: number): HeaderList {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
    const fields: HeaderField[] = []
    let total = 0
    let first = true
    while (this.#at < end) {
      const octet = bytes[this.#at] as number
      if ((octet & 0xe0) === 0x20) {
        if (!first) throw broken('a table changes its size in the middle of a block')
        this.#resize(this.#integer(0x1f))
        continue
      }
      first = false
      const field = octet >= 0x80 ? this.#indexed(this.#integer(0x7f)) : this.#literal(octet)
      total += field.bytes
      // What is too much is read all the same: it changes the table.
      if (total <= HEADER_LIST_BYTES_MAX && fields.length <= HEADER_FIELDS_MAX) fields.push(field)
    }
    return total > HEADER_LIST_BYTES_MAX || fields.length > HEADER_FIELDS_MAX ? undefined : fields
  }

  #indexed(index: number): HeaderField {
    const known = STATIC_TABLE.length
    const field = index <= known ? STATIC_TABLE[index - 1] : this.#table.at(known - index)
    if (field === undefined) throw broken(`there is no field ${index}`)
    return field
  }

  #literal(octet: number): HeaderField {
    const remember = octet >= 0x40
    const index = this.#integer(remember ? 0x3f : 0x0f)
    const named = index === 0 ? undefined : this.#indexed(index)
    const name = named?.name ?? this.#text()
    const field = new HeaderField(name, this.#text(), named?.nameKind)
    if (remember) this.#remember(field)
    return field
  }

  #remember(field: HeaderField): void {
    this.#evict(this.#tableBytesMax - field.bytes)
    // One that is larger than the table empties it, and is not kept (section 4.4).
    if (field.bytes > this.#tableBytesMax) return
    this.#table.push(field)
    this.#tableBytes += field.bytes
  }

  #resize(bytesMax: number): void {
    if (bytesMax > TABLE_BYTES_MAX) throw broken(`a table of ${bytesMax} bytes`)
    this.#tableBytesMax = bytesMax
    this.#evict(bytesMax)
  }

  #evict(bytesMax: number): void {
    while (this.#tableBytes > bytesMax) {
      const oldest = this.#table.shift()
      if (oldest === undefined) return
      this.#tableBytes -= oldest.bytes
    }
  }

  /** @param mask the bits of the first octet that belong to it (section 5.1) */
  #integer(mask: number): number {
    let value = this.#octet() & mask
    if (value < mask) return value
    for (let shift = 0; shift < INTEGER_OCTETS_MAX * 7; shift += 7) {
      const octet = this.#octet()
      value += (octet & 0x7f) << shift
      if (octet < 0x80) return value
    }
    throw broken('an integer is too long')
  }

  #text(): string {
    const huffman = ((this.#bytes[this.#at] as number) & 0x80) !== 0
    const length = this.#integer(0x7f)
    const start = this.#at
    this.#at += length
    if (this.#at > this.#end) throw broken('a text is cut off')
    return huffman
      ? readHuffman(this.#bytes, start, this.#at)
      : this.#bytes.toString('latin1', start, this.#at)
  }

  #octet(): number {
    if (this.#at >= this.#end) throw broken('a block is cut off')
    return this.#bytes[this.#at++] as number
  }
}

function broken(text: string): ConnectionError {
  return new ConnectionError(CODE.compressionError, text)
}
