import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = readonly [network: Address, bits: number]

/** A set of addresses. */
export interface AddressRanges {
  contains(address: Address): boolean
}

/**
 * An IPv4 range is the same one in its IPv6 form (::ffff:10.0.0.0/104).
 *
 * @param cidrs such as "10.1.0.0/16", "fd00:1::/32"
 * @throws RangeError when one is malformed
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
 * @param text may name the interface of a link-local address (fe80::1%eth0), which is left out
 * @returns an IPv4 address also for its IPv6 form; undefined for what is no address
 */
export function parseAddress(text: string): Address | undefined {
  const plain = text.split('%', 1)[0] as string
  // ipaddr.js also reads legacy spellings, such as "127.1"; net.isIP takes none of them.
  return isIP(plain) === 0 ? undefined : ipaddr.process(plain)
}

function parseRange(cidr: string): Range {
  const [, network = ''] = /^([^/%]+)\/\d{1,3}$/.exec(cidr) ?? []
  if (isIP(network) === 0 || !ipaddr.isValidCIDR(cidr)) {
    throw new RangeError(`not a range of addresses: ${cidr}`)
  }
  const [address, bits] = ipaddr.parseCIDR(cidr)
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96
  return isMapped ? [address.toIPv4Address(), bits - 96] : [address, bits]
}
