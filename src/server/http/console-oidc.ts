import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { RateLimits } from '../../auth/rate-limits/rate-limits.ts'
import type { OpenedSession } from '../../auth/sessions/open-session.ts'
import { FLOW_MS, type OidcFailure, type SignInUser } from '../../auth/sessions/sign-in-user.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import { limitFailures } from '../interceptors/rate-limit.ts'
import { sampleByAddress } from '../interceptors/refusal-log.ts'
import { COOKIE_OPTIONS } from './session-cookie.ts'

/** The OpenID Connect provider, as the console shows it. */
export interface ConsoleOidc extends SignInUser {
  /** What the button says. */
  readonly name: string
  /** Where the browser knows the console: PUBLIC_URL. */
  readonly publicUrl: URL
}

interface Options {
  readonly log: Logger
  readonly limits: RateLimits
  readonly clock: Clock
  /** Sets the cookie of a session. */
  readonly begin: (
    request: FastifyRequest,
    reply: FastifyReply,
    begun: { readonly origin: string; readonly opened: OpenedSession },
  ) => Promise<void>
}

/** Why the sign-in page is shown again, in its fragment: `/console/sign-in#error=oidc_denied`. */
type SignInError = OidcFailure | 'oidc_unavailable' | 'rate_limited'

/** What counts like a wrong token: each may have cost a request to the provider, and anyone can cause it. */
const WRONG: ReadonlySet<SignInError> = new Set(['oidc_expired', 'oidc_failed'])

/** `GET /console/oidc` sends the browser to the provider, and `/console/oidc/callback` signs its user in. */
export function registerConsoleOidc(
  scope: FastifyInstance,
  oidc: ConsoleOidc,
  { log, limits, clock, begin }: Options,
): void {
  const { origin } = oidc.publicUrl
  const cookie = flowCookie(origin)
  const logFailure = sampleByAddress(log, { level: 'warn', text: 'a user could not sign in' })
  const fail = (request: FastifyRequest, reply: FastifyReply, why: SignInError, err: unknown) => {
    const { id: request_id, ip: address } = request
    logFailure(address, { request_id, address, reason: why, ...(err !== undefined && { err }) })
    if (WRONG.has(why)) limits.fail(address, 'well-formed', request.cookies[cookie.name] ?? '')
    return reply.redirect(`${origin}/console/sign-in#error=${why}`)
  }
  scope.get('/console/oidc', async (request, reply) => {
    try {
      const { url, kept } = await oidc.begin()
      return reply.setCookie(cookie.name, kept, cookie.options).redirect(url)
    } catch (error) {
      return fail(request, reply, 'oidc_unavailable', error)
    }
  })
  scope.get('/console/oidc/callback', async (request, reply) => {
    const kept = request.cookies[cookie.name]
    const search = new URL(request.url, origin).search
    reply.clearCookie(cookie.name, cookie.options)
    const source = { address: request.ip, requestId: request.id }
    try {
      // The provider is asked at most as often as an address may try wrong tokens.
      limitFailures(
        limits,
        clock,
        { address: source.address },
        () => kept ?? '',
        () => 'well-formed',
      )
      const found = await oidc.finish(search, kept, source)
      if ('failure' in found) return fail(request, reply, found.failure, found.cause)
      await begin(request, reply, { origin, opened: found })
      return reply.redirect(`${origin}/console`)
    } catch (error) {
      if (!(error instanceof Fault) || error.reason !== 'rate_limited') throw error
      return fail(request, reply, 'rate_limited', error)
    }
  })
}

/** Lax, as the browser comes back from another site. */
function flowCookie(origin: string) {
  const secure = origin.startsWith('https:')
  const options = { ...COOKIE_OPTIONS, sameSite: 'lax', secure, maxAge: FLOW_MS / 1_000 } as const
  return { name: secure ? '__Host-inflow-oidc' : 'inflow-oidc', options }
}
