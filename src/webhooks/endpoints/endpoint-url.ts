import { isIPv4 } from 'node:net'
import type { AddressGuard } from '../sender/address-guard.ts'

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
  // The URL parser drops or repairs these, so it would call another URL than the one written.
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

/** @param hostname as the URL parser writes it: any spelling of an IPv4 address is dotted there */
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
