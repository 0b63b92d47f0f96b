import { isIP } from 'node:net'
import { type FieldFault, invalidFields } from '../core/errors.ts'
import { addressRanges, parseAddress } from '../net/address-ranges.ts'

/** Whether a key may be used from an address. */
export type AllowsAddress = (address: string) => boolean

/**
 * Parses address ranges: "203.0.113.0/24", "2001:db8::/32", or single addresses.
 *
 * @returns the ranges in canonical form, `<address>/<bits>`, without duplicates
 * @throws Fault validation_failed naming each invalid range
 */
export function readAllowedCidrs(texts: readonly string[]): readonly string[] {
  const faults: FieldFault[] = []
  const cidrs = texts.map((text, index) => {
    const cidr = readCidr(text.trim())
    if (cidr !== undefined) return cidr
    const message = 'must be an address or a range such as 203.0.113.0/24 or 2001:db8::/32'
    faults.push({ field: `allowedCidrs[${index}]`, message })
    return ''
  })
  if (faults.length > 0) throw invalidFields(faults)
  return [...new Set(cidrs)]
}

function readCidr(text: string): string | undefined {
  const [, address = '', bits] = /^([0-9A-Fa-f.:]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const version = isIP(address)
  const bitsMax = version === 4 ? 32 : 128
  if (version === 0 || Number(bits ?? 0) > bitsMax) return undefined
  return `${address.toLowerCase()}/${Number(bits ?? bitsMax)}`
}

/**
 * Creates the check of a key's address ranges. An IPv4 address equals its IPv6 form
 * (::ffff:203.0.113.7), in ranges and addresses alike.
 *
 * @param cidrs as `readAllowedCidrs` returns them; empty: any address
 */
export function createAllowsAddress(cidrs: readonly string[]): AllowsAddress {
  if (cidrs.length === 0) return () => true
  const ranges = addressRanges(cidrs)
  return (given) => {
    const address = parseAddress(given)
    return address !== undefined && ranges.contains(address)
  }
}
