import { isIPv4, isIPv6, SocketAddress } from 'node:net'

/** The result of parsing the first bytes of a connection. */
type ProxyHeader =
  | { readonly state: 'incomplete' }
  | { readonly state: 'invalid' }
  | {
      readonly state: 'complete'
      /** The length of the header in bytes; the bytes after it come from the client. */
      readonly length: number
      /** The client's address; undefined: the proxy itself is the client, as in a health check. */
      readonly address: string | undefined
    }

/** The longest header of version 1, as the specification states it. */
const V1_BYTES_MAX = 107

/** The longest header of version 2 that is read: addresses, and the fields that load balancers add. */
export const V2_BYTES_MAX = 4_096

const V1_START = Buffer.from('PROXY ')
const V2_START = Buffer.from('\r\n\r\n\0\r\nQUIT\n')
const V2_FIXED_BYTES = 16

const INVALID: ProxyHeader = { state: 'invalid' }
const INCOMPLETE: ProxyHeader = { state: 'incomplete' }

/**
 * Parses a header of the PROXY protocol, version 1 or 2
 * (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
 *
 * Written by hand: the libraries that wrap sockets are unmaintained, and proxy-protocol-js rejects incomplete headers, and
 * takes the fields that a load balancer adds for data of the client.
 */
export function parseProxyHeader(bytes: Buffer): ProxyHeader {
  if (startsAs(bytes, V2_START)) return bytes.length < V2_FIXED_BYTES ? INCOMPLETE : parseV2(bytes)
  if (startsAs(bytes, V1_START)) return parseV1(bytes)
  return INVALID
}

/** Whether the bytes begin with `start`, or are the beginning of it. */
function startsAs(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length)
  return bytes.subarray(0, length).equals(start.subarray(0, length))
}

/** `PROXY TCP4 203.0.113.7 10.0.0.1 50000 443\r\n` */
function parseV1(bytes: Buffer): ProxyHeader {
  const end = bytes.subarray(0, V1_BYTES_MAX).indexOf('\r\n')
  if (end === -1) return bytes.length < V1_BYTES_MAX ? INCOMPLETE : INVALID
  const length = end + 2
  const [, family, ...ends] = bytes.toString('latin1', 0, end).split(' ')
  if (family === 'UNKNOWN') return { state: 'complete', length, address: undefined }
  const [source = '', destination = '', ...ports] = ends
  const isAddress = family === 'TCP4' ? isIPv4 : family === 'TCP6' ? isIPv6 : () => false
  const valid = isAddress(source) && isAddress(destination) && ports.length === 2
  if (!valid || !ports.every(isPort) || source.includes('%')) return INVALID
  return { state: 'complete', length, address: source }
}

function isPort(text: string): boolean {
  return /^(0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535
}

/** The family and transport codes of version 2 headers that name a client, and the length of their addresses. */
const IPV4_STREAM = { code: 0x11, addressBytes: 4, bytes: 12 } as const
const IPV6_STREAM = { code: 0x21, addressBytes: 16, bytes: 36 } as const

/** The codes without an address of a client: the transport is unknown, or a Unix socket. */
const WITHOUT_ADDRESS: readonly number[] = [0x00, 0x31]

function parseV2(bytes: Buffer): ProxyHeader {
  const [version, command] = [bytes.readUInt8(12) >> 4, bytes.readUInt8(12) & 15]
  const family = bytes.readUInt8(13)
  const length = V2_FIXED_BYTES + bytes.readUInt16BE(14)
  // Command 0 is a connection of the proxy itself, command 1 a connection for a client.
  if (version !== 2 || command > 1 || length > V2_BYTES_MAX) return INVALID
  if (bytes.length < length) return INCOMPLETE
  if (command === 0 || WITHOUT_ADDRESS.includes(family)) {
    return { state: 'complete', length, address: undefined }
  }
  const kind = [IPV4_STREAM, IPV6_STREAM].find(({ code }) => code === family)
  if (kind === undefined || length < V2_FIXED_BYTES + kind.bytes) return INVALID
  const source = bytes.subarray(V2_FIXED_BYTES, V2_FIXED_BYTES + kind.addressBytes)
  return { state: 'complete', length, address: addressText(source) }
}

function addressText(bytes: Buffer): string {
  if (bytes.length === IPV4_STREAM.addressBytes) return bytes.join('.')
  const address = bytes.toString('hex').match(/.{4}/g)?.join(':') ?? ''
  return new SocketAddress({ family: 'ipv6', address }).address
}
