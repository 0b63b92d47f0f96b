import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { type Address, addressRanges, parseAddress } from '../../core/addresses.ts'

/** Decides which network addresses webhooks may not be sent to. */
export interface AddressGuard {
  /**
   * @param address an IP address; anything else is refused
   * @returns the kind of a refused address, such as "a private address (10.0.0.1)"; undefined if the address is allowed
   */
  refusal(address: string): string | undefined
}

/**
 * The ranges of the IANA special-purpose registries that do not lead to a public host, and the
 * address at which a cloud serves its own virtual machines (168.63.129.16).
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

/** All public IPv6 addresses are in this range; any address outside it is refused. */
const GLOBAL_UNICAST = addressRanges(['2000::/3'])

/** NAT64 (RFC 6052): the last 32 bits are the IPv4 address that the packet goes to. */
const NAT64 = addressRanges(['64:ff9b::/96'])

/**
 * @param allowedCidrs ranges that an operator allows, such as "10.1.0.0/16"
 * @throws RangeError if a range is malformed
 */
export function createAddressGuard(allowedCidrs: readonly string[]): AddressGuard {
  const allowed = addressRanges(allowedCidrs)
  const refused = NON_PUBLIC.map(([kind, ranges]) => [kind, addressRanges(ranges)] as const)
  return {
    refusal(given) {
      const address = parseAddress(given)
      if (address === undefined) return `not an address (${given})`
      const reached = NAT64.contains(address) ? lastIPv4(address) : address
      if (allowed.contains(reached)) return undefined
      const kind = refused.find(([, ranges]) => ranges.contains(reached))?.[0]
      if (kind) return `${kind} (${reached})`
      if (reached.kind() === 'ipv6' && !GLOBAL_UNICAST.contains(reached)) {
        return `a reserved address (${reached})`
      }
      return undefined
    },
  }
}

function lastIPv4(address: Address): Address {
  return ipaddr.fromByteArray(address.toByteArray().slice(-4))
}

/** The rules for endpoint URLs. */
export interface UrlRules {
  /** Whether http is allowed as well as https. */
  readonly allowHttp: boolean
  readonly guard: AddressGuard
}

const LENGTH_MAX = 2_000

/** The cloud's metadata service. This name and localhost are refused, whatever they resolve to. */
const METADATA_NAME = 'metadata.google.internal'

/**
 * Checks a URL when an endpoint is created, and again before it is called: the rules may have
 * changed since, and a literal address is never resolved, so no later check would see it.
 *
 * @returns why the URL is refused, or undefined if it is allowed
 */
export function urlRefusal(text: string, rules: UrlRules): string | undefined {
  if (text.length > LENGTH_MAX) return `must have at most ${LENGTH_MAX} characters`
  // The URL parser drops or repairs these characters, so the request would go to another URL than the text says.
  if (/[\p{C}\s\\]/u.test(text)) {
    return 'must not contain spaces, control or invisible characters, or backslashes'
  }
  const scheme = /^(https?):\/\/(?!\/)/i.exec(text)?.[1]?.toLowerCase()
  if (scheme === undefined || !URL.canParse(text)) return 'must be a URL such as https://host/path'
  if (scheme === 'http' && !rules.allowHttp) return 'must be an https URL'
  if (/^[^/]+\/\/[^/?#]*@/.test(text)) return 'must not contain a user name or password'
  if (text.includes('#')) return 'must not contain a fragment (#…)'
  const { hostname, port } = new URL(text)
  if (port === '0') return 'must not use port 0'
  return hostRefusal(hostname, rules.guard)
}

/** @param hostname as the URL parser writes it: with any spelling of an IPv4 address in dotted form */
function hostRefusal(hostname: string, guard: AddressGuard): string | undefined {
  const literal = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  if (literal !== hostname || isIPv4(literal)) {
    const refusal = guard.refusal(literal)
    return refusal && `must be a public address, but is ${refusal}`
  }
  const name = hostname.replace(/\.+$/, '')
  if (name === 'localhost' || name.endsWith('.localhost')) {
    const refusal = guard.refusal('127.0.0.1')
    return refusal && 'must be a public address, but is this machine (localhost)'
  }
  if (name === METADATA_NAME) return `must be a public address, but is ${METADATA_NAME}`
  return undefined
}
