import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = readonly [network: Address, bits: number]

/** A set of IP addresses. */
export interface AddressRanges {
  contains(address: Address): boolean
}

/**
 * Parses CIDR ranges. An IPv4 range equals its IPv6-mapped form (::ffff:10.0.0.0/104).
 *
 * @param cidrs such as "10.1.0.0/16", "fd00:1::/32"
 * @throws RangeError if a range is malformed
 */
export function addressRanges(cidrs: readonly string[]): AddressRanges {
  const ranges = cidrs.map(parseRange)
  return {
    contains: (address) =>
      ranges.some(([network, bits]) => {
        return network.kind() === address.kind() && address.match(network, bits)
      }),
  }
}

/**
 * @param text a zone (fe80::1%eth0) is dropped
 * @returns an IPv4 address also for its IPv6-mapped form; undefined unless the text is an address
 */
export function parseAddress(text: string): Address | undefined {
  const plain = text.split('%', 1)[0] as string
  // ipaddr.js also accepts legacy forms such as "127.1"; net.isIP rejects them.
  return isIP(plain) === 0 ? undefined : ipaddr.process(plain)
}

function parseRange(cidr: string): Range {
  const [, network = ''] = /^([^/%]+)\/\d{1,3}$/.exec(cidr) ?? []
  if (isIP(network) === 0 || !ipaddr.isValidCIDR(cidr)) {
    throw new RangeError(`not a CIDR range: ${cidr}`)
  }
  const [address, bits] = ipaddr.parseCIDR(cidr)
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96
  return isMapped ? [address.toIPv4Address(), bits - 96] : [address, bits]
}

/**
 * Returns the group that an address is rate limited by. An IPv4 address is its own group, also in
 * its IPv6 form. IPv6 addresses are grouped by their first 64 bits, as a client usually has a /64.
 */
export function addressGroup(text: string): string {
  if (!text.includes(':')) return text
  const address = parseAddress(text)
  if (address === undefined) return text
  if (address instanceof ipaddr.IPv4 || address.range() === 'loopback') return address.toString()
  const network = address.parts.slice(0, 4)
  if (network.every((part) => part === 0)) return '::/64'
  return `${network.map((part) => part.toString(16)).join(':')}::/64`
}

/** Whether an address group is the loopback of this machine. */
export function isLoopback(group: string): boolean {
  return group === '::1' || /^127(\.\d{1,3}){3}$/.test(group)
}
