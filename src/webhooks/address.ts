import { isIP, isIPv4 } from 'node:net'
import { addressRanges } from '../address-ranges.ts'

/** Tells which network addresses webhooks may not be sent to. */
export interface AddressGuard {
  /**
   * @param address an IP address; anything else is refused
   * @returns what it is, such as "a private address (10.0.0.1)", or undefined when it is allowed
   */
  refusal(address: string): string | undefined
}

/**
 * The ranges of the IANA special-purpose registries that do not lead to a public host, and one
 * address that a cloud answers on inside its machines (168.63.129.16).
 */
const NON_PUBLIC: readonly (readonly [kind: string, ranges: readonly string[]])[] = [
  ['a loopback address', ['127.0.0.0/8', '::1/128']],
  [
    'a private address',
    ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10', '64:ff9b:1::/48'],
  ],
  ['a link-local address', ['169.254.0.0/16', 'fe80::/10']],
  ['a carrier-grade NAT address', ['100.64.0.0/10']],
  ['a multicast address', ['224.0.0.0/4', 'ff00::/8']],
  [
    'a documentation address',
    ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '2001:db8::/32', '3fff::/20'],
  ],
  ['an unspecified address', ['0.0.0.0/8', '::/128']],
  ['a discard address', ['100::/64']],
  ['a tunnelled address', ['192.88.99.0/24', '2002::/16', '2001::/32']],
  [
    'a reserved address',
    ['192.0.0.0/24', '198.18.0.0/15', '240.0.0.0/4', '168.63.129.16/32', '2001::/23'],
  ],
]

/** What is public in IPv6 is inside this one range; new ranges outside it start as refused. */
const GLOBAL_UNICAST = '2000::/3'

/** Prefixes whose last 32 bits are an IPv4 address that the packet goes to: mapped and NAT64. */
const EMBEDDING = [
  [0, 0, 0, 0, 0, 0xffff],
  [0x64, 0xff9b, 0, 0, 0, 0],
]

/**
 * @param allowedCidrs ranges that an operator opens, such as "10.1.0.0/16"
 * @throws RangeError when one is malformed
 */
export function createAddressGuard(allowedCidrs: readonly string[]): AddressGuard {
  const allowed = addressRanges(allowedCidrs)
  const global = addressRanges([GLOBAL_UNICAST])
  const refused = NON_PUBLIC.map(([kind, ranges]) => [kind, addressRanges(ranges)] as const)
  return {
    refusal(given) {
      const address = withoutZone(given)
      if (isIP(address) === 0) return `not an address (${given})`
      const reached = embeddedIpv4(address) ?? address
      const family = isIPv4(reached) ? 'ipv4' : 'ipv6'
      if (allowed.check(reached, family)) return undefined
      const kind = refused.find(([, list]) => list.check(reached, family))?.[0]
      if (kind) return `${kind} (${reached})`
      if (family === 'ipv6' && !global.check(reached, family)) {
        return `a reserved address (${reached})`
      }
      return undefined
    },
  }
}

/** A resolver may say on which interface a link-local address is: fe80::1%eth0. */
function withoutZone(address: string): string {
  return address.split('%', 1)[0] as string
}

function embeddedIpv4(address: string): string | undefined {
  if (isIPv4(address)) return undefined
  const words = ipv6Words(address)
  if (!EMBEDDING.some((prefix) => prefix.every((word, index) => words[index] === word))) {
    return undefined
  }
  const [high = 0, low = 0] = words.slice(6)
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
}

/** The eight 16-bit words of an IPv6 address. */
function ipv6Words(address: string): number[] {
  // The URL parser writes every spelling, dotted endings too, as hexadecimal words.
  const hexadecimal = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [head = '', tail] = hexadecimal.split('::')
  const left = words(head)
  if (tail === undefined) return left
  const right = words(tail)
  return [...left, ...new Array<number>(8 - left.length - right.length).fill(0), ...right]
}

function words(text: string): number[] {
  return text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16))
}
