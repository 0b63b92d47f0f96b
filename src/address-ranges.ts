import { BlockList, isIP } from 'node:net'

/**
 * A set of addresses.
 *
 * @param cidrs such as "10.1.0.0/16", "fd00:1::/32"
 * @throws RangeError when one is malformed
 */
export function addressRanges(cidrs: readonly string[]): BlockList {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [, network = '', bits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(cidr) ?? []
    const version = isIP(network)
    if (version === 0 || Number(bits) > (version === 4 ? 32 : 128)) {
      throw new RangeError(`not a range of addresses: ${cidr}`)
    }
    list.addSubnet(network, Number(bits), version === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}
