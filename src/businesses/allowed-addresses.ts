import { isIP } from 'node:net'
import { type FieldFault, invalidFields } from '../core/errors.ts'
import { addressRanges, parseAddress } from '../net/address-ranges.ts'

/** Tells whether a key works from an address. */
export type AllowsAddress = (address: string) => boolean

/**
 * Reads the ranges that an operator gave: "203.0.113.0/24", "2001:db8::/32", or single addresses.
 *
 * @returns them in one form, `<address>/<bits>`, each once
 * @throws Fault validation_failed naming every one that is no range
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
 * An IPv4 address is the same one in its IPv6 form (::ffff:203.0.113.7), on either side.
 *
 * @param cidrs as `readAllowedCidrs` returns them; none: from anywhere
 */
export function createAllowsAddress(cidrs: readonly string[]): AllowsAddress {
  if (cidrs.length === 0) return () => true
  const ranges = addressRanges(cidrs)
  return (given) => {
    const address = parseAddress(given)
    return address !== undefined && ranges.contains(address)
  }
}
