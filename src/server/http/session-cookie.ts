import { type CookieSerializeOptions, fastifyCookie } from '@fastify/cookie'
import type { FastifyRequest } from 'fastify'

/** What is read of a request: its Host, and whether it came over https, as trusted proxies state both. */
type Arrival = Pick<FastifyRequest, 'headers' | 'host' | 'protocol'>

/** Separates requests of the console's own pages from those of other sites. */
export interface OwnOrigin {
  /** The origin of a request by one of our own pages; undefined: another site may have caused it. */
  of(request: Arrival): string | undefined
  /** The origin that a request is addressed to, even if another site caused it. */
  addressed(request: Arrival): string
}

/**
 * A browser states the origin of the page that caused a request, in `Origin` or, where it leaves that
 * out, `Sec-Fetch-Site`; pages cannot set either. A request with neither did not come from a page.
 *
 * @param publicUrl PUBLIC_URL, for proxies that state neither host nor protocol; undefined: not set
 */
export function createOwnOrigin(publicUrl: URL | undefined): OwnOrigin {
  const addressed = (request: Arrival): string => {
    if (publicUrl !== undefined && publicUrl.host === request.host) return publicUrl.origin
    const url = `${request.protocol}://${request.host}`
    return URL.canParse(url) ? new URL(url).origin : url
  }
  return {
    addressed,
    of(request) {
      const site = request.headers['sec-fetch-site']
      if (site !== undefined && site !== 'same-origin') return undefined
      const own = addressed(request)
      const { origin } = request.headers
      if (origin === undefined) return site === undefined ? undefined : own
      return origin === own || origin === publicUrl?.origin ? origin : undefined
    },
  }
}

/** The attributes of a cookie: scripts cannot read it, and other sites' requests do not carry it. */
export const COOKIE_OPTIONS = { path: '/', httpOnly: true, sameSite: 'strict' } as const

/** The cookie of a session, by the origin of the console. */
export function sessionCookie(origin: string): { name: string; options: CookieSerializeOptions } {
  // With the prefix, a browser takes the cookie only over https, from this host itself. It keeps no
  // such cookie over http, which development on one machine uses.
  const secure = origin.startsWith('https:')
  const name = secure ? '__Host-inflow-session' : 'inflow-session'
  return { name, options: { ...COOKIE_OPTIONS, secure } }
}

/** Returns the secret in the cookie of a request by one of our own pages; undefined: there is none. */
export function sessionSecretOf(request: Arrival, own: OwnOrigin): string | undefined {
  const { cookie } = request.headers
  if (cookie === undefined) return undefined
  const origin = own.of(request)
  return origin === undefined ? undefined : fastifyCookie.parse(cookie)[sessionCookie(origin).name]
}
