import ipaddr from 'ipaddr.js'
import { parseAddress } from '../../net/address-ranges.ts'

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
