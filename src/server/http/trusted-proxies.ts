import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { addressRanges, parseAddress } from '../../net/address-ranges.ts'

/** Whether a peer is a proxy that states the address of its caller. */
export type TrustsProxy = (address: string) => boolean

/** @param cidrs of the proxies */
export function createTrustsProxy(cidrs: readonly string[]): TrustsProxy {
  const ranges = addressRanges(cidrs)
  return (text) => {
    const address = parseAddress(text)
    return address !== undefined && ranges.contains(address)
  }
}

/**
 * Leaves of `X-Forwarded-For` only the addresses at its end: the caller behind anything else is
 * unknown, so the nearest proxy that is known counts as the caller. Otherwise any text would be an address
 * to rate limits, allowed ranges and the audit log.
 */
export function dropUnknownCallers(headers: IncomingHttpHeaders): void {
  const given = headers['x-forwarded-for']
  if (given === undefined) return
  const parts = `${given}`.split(',').map((part) => part.trim())
  const known = parts.slice(parts.findLastIndex((part) => isIP(part) === 0) + 1)
  headers['x-forwarded-for'] = known.join(', ')
}
