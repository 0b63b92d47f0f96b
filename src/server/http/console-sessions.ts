import cookies, { type CookieSerializeOptions, fastifyCookie } from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { RateLimits } from '../../auth/rate-limits/rate-limits.ts'
import type { AuthenticateSession } from '../../auth/sessions/authenticate-session.ts'
import type { OpenedSession, SignOut } from '../../auth/sessions/open-session.ts'
import type { SignIn, SignInCredential } from '../../auth/sessions/sign-in.ts'
import { FLOW_MS, type OidcFailure, type SignInUser } from '../../auth/sessions/sign-in-user.ts'
import { idIn } from '../../auth/token-secret.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import { createLogRefusal, sampleByAddress } from '../interceptors/observation.ts'
import { limitFailures } from '../interceptors/rate-limit.ts'
import { parseBody } from '../json.ts'
import { hasEncoding, keepBytes } from './gateway.ts'

/** The dependencies of signing in to the console and out of it. */
export interface ConsoleSessions {
  readonly ownOrigin: OwnOrigin
  readonly signIn: SignIn
  readonly signOut: SignOut
  readonly authenticateSession: AuthenticateSession
  readonly limits: RateLimits
  readonly clock: Clock
  readonly log: Logger
  /** Undefined: users sign in with tokens only. */
  readonly oidc: ConsoleOidc | undefined
}

/** The largest body in bytes; a token has at most 200 characters. */
const BODY_BYTES_MAX = 4_096

/** The longest credential. */
const CREDENTIAL_CHARS_MAX = 512

/** Registers the routes under `/console` that sign in and out. */
export async function registerConsoleSessions(
  app: FastifyInstance,
  options: ConsoleSessions,
): Promise<void> {
  const { oidc, ownOrigin } = options
  const logRefusal = createLogRefusal(options.log)
  await app.register(async (scope) => {
    await scope.register(cookies)
    keepBytes(scope, BODY_BYTES_MAX)
    scope.get('/console/sign-in-methods', async () => ({
      token: true,
      oidc: oidc === undefined ? null : { name: oidc.name },
    }))
    scope.post('/console/session', { bodyLimit: BODY_BYTES_MAX }, async (request, reply) => {
      const origin = requireOwnOrigin(request, ownOrigin)
      const opened = await exchange(options, request).catch((error: unknown) => {
        if (error instanceof Fault) {
          const { id: request_id, ip: address } = request
          const { reason } = error
          const record = { request_id, address, path: '/console/session', reason }
          logRefusal(record, reason, address)
        }
        throw error
      })
      await replaceSession(options, request, reply, { origin, opened })
      return reply.code(204).send()
    })
    scope.delete('/console/session', async (request, reply) => {
      const origin = requireOwnOrigin(request, ownOrigin)
      await endSession(options, request)
      const { name, options: attributes } = sessionCookie(origin)
      return reply.clearCookie(name, attributes).code(204).send()
    })
    if (oidc !== undefined) registerConsoleOidc(scope, oidc, options)
  })
}

/** Other sites cannot sign in either: an attacker's page could sign a browser in as the attacker's user. */
function requireOwnOrigin(request: FastifyRequest, ownOrigin: OwnOrigin): string {
  const origin = ownOrigin(request)
  if (origin !== undefined) return origin
  const text =
    'Only the pages of the console may sign in and out: the Origin header names another site'
  throw new Fault('permission_denied', text)
}

async function exchange(
  { signIn, limits, clock }: ConsoleSessions,
  request: FastifyRequest,
): Promise<OpenedSession> {
  const given = readCredential(request)
  const credential = 'token' in given ? given.token : given.code
  const address = request.ip
  limitFailures(limits, clock, { address }, () => credential, formOf)
  const opened = await signIn(given, { address, requestId: request.id })
  if (opened !== undefined) return opened
  limits.fail(address, formOf(credential), credential)
  const what = 'token' in given ? 'token' : 'link'
  throw new Fault('unauthorized', `The ${what} is wrong, has expired or was used or revoked`)
}

function formOf(credential: string) {
  const id = idIn('tok', credential) ?? idIn('sic', credential) ?? idIn('plk', credential)
  return id === undefined ? 'malformed' : 'well-formed'
}

/** `{"token": "…"}` or `{"code": "…"}` */
function readCredential({ headers, body }: FastifyRequest): SignInCredential {
  const mediaType = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  // A form of another site cannot send this type.
  if (mediaType !== 'application/json' || hasEncoding(headers['content-encoding'])) {
    throw new Fault('unsupported_media_type', 'Send Content-Type: application/json')
  }
  const { token, code, ...others } = parseBody(body)
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw invalidFields([{ field: unknown, message: 'is not a field' }])
  if (isCredential(token) && code === undefined) return { token }
  if (isCredential(code) && token === undefined) return { code }
  throw invalidFields([{ field: 'token', message: 'must be given, or else "code"' }])
}

function isCredential(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= CREDENTIAL_CHARS_MAX
}

/** Sets the cookie of a new session, and ends the session that the browser had before. */
async function replaceSession(
  options: ConsoleSessions,
  request: FastifyRequest,
  reply: FastifyReply,
  { origin, opened }: { readonly origin: string; readonly opened: OpenedSession },
): Promise<void> {
  await endSession(options, request)
  const { name, options: attributes } = sessionCookie(origin)
  reply.setCookie(name, opened.secret, { ...attributes, expires: new Date(opened.expiresAtMs) })
}

async function endSession(
  { authenticateSession, signOut, ownOrigin }: ConsoleSessions,
  request: FastifyRequest,
): Promise<void> {
  const secret = sessionSecretOf(request, ownOrigin)
  if (secret === undefined) return
  const caller = await authenticateSession(secret, 'watch')
  if (caller !== undefined) await signOut(caller, { address: request.ip, requestId: request.id })
  authenticateSession.forget(secret)
}

/** The parts of a request that are read: its Host and protocol, as trusted proxies state them. */
type Arrival = Pick<FastifyRequest, 'headers' | 'host' | 'protocol'>

/** The origin of a request by one of our own pages; undefined if another site may have caused it. */
type OwnOrigin = (request: Arrival) => string | undefined

/**
 * A browser states the origin of the page that caused a request in `Origin`, or, if it omits `Origin`, in
 * `Sec-Fetch-Site`. Pages can set neither header. A request without both did not come from a page.
 *
 * @param publicUrl PUBLIC_URL, for proxies that state neither host nor protocol; undefined: not set
 */
export function createOwnOrigin(publicUrl: URL | undefined): OwnOrigin {
  /** The origin that a request is addressed to, even if another site caused it. */
  const addressed = (request: Arrival): string => {
    if (publicUrl !== undefined && publicUrl.host === request.host) return publicUrl.origin
    const url = `${request.protocol}://${request.host}`
    return URL.canParse(url) ? new URL(url).origin : url
  }
  return (request) => {
    const site = request.headers['sec-fetch-site']
    if (site !== undefined && site !== 'same-origin') return undefined
    const own = addressed(request)
    const { origin } = request.headers
    if (origin === undefined) return site === undefined ? undefined : own
    return origin === own || origin === publicUrl?.origin ? origin : undefined
  }
}

/** The attributes of a cookie: scripts cannot read it, and other sites' requests do not carry it. */
const COOKIE_OPTIONS = { path: '/', httpOnly: true, sameSite: 'strict' } as const

/** The cookie of a session, by the origin of the console. */
function sessionCookie(origin: string): { name: string; options: CookieSerializeOptions } {
  // With the prefix `__Host-`, a browser accepts the cookie only over https and from this host. Development on one machine
  // uses http, where browsers refuse such a cookie.
  const secure = origin.startsWith('https:')
  const name = secure ? '__Host-inflow-session' : 'inflow-session'
  return { name, options: { ...COOKIE_OPTIONS, secure } }
}

/** Returns the secret in the cookie of a request by one of our own pages; undefined if there is none. */
export function sessionSecretOf(request: Arrival, own: OwnOrigin): string | undefined {
  const { cookie } = request.headers
  if (cookie === undefined) return undefined
  const origin = own(request)
  return origin === undefined ? undefined : fastifyCookie.parse(cookie)[sessionCookie(origin).name]
}

/** Sign-in through an OpenID Connect provider. */
export interface ConsoleOidc extends SignInUser {
  /** The name of the provider on the sign-in button. */
  readonly name: string
  /** PUBLIC_URL: the address of the console in the browser. */
  readonly publicUrl: URL
}

/** The error that the sign-in page gets in its fragment: `/console/sign-in#error=oidc_denied`. */
type SignInError = OidcFailure | 'oidc_unavailable' | 'rate_limited'

/** The errors that count like a wrong token: anyone can cause them, and each may cost a request to the provider. */
const WRONG: ReadonlySet<SignInError> = new Set(['oidc_expired', 'oidc_failed'])

/** `GET /console/oidc` redirects the browser to the provider, and `/console/oidc/callback` signs the user in. */
function registerConsoleOidc(
  scope: FastifyInstance,
  oidc: ConsoleOidc,
  options: ConsoleSessions,
): void {
  const { log, limits, clock } = options
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
      // An address can cause requests to the provider at most as often as it can try wrong tokens.
      limitFailures(
        limits,
        clock,
        { address: source.address },
        () => kept ?? '',
        () => 'well-formed',
      )
      const found = await oidc.finish(search, kept, source)
      if ('failure' in found) return fail(request, reply, found.failure, found.cause)
      await replaceSession(options, request, reply, { origin, opened: found })
      return reply.redirect(`${origin}/console`)
    } catch (error) {
      if (!(error instanceof Fault) || error.reason !== 'rate_limited') throw error
      return fail(request, reply, 'rate_limited', error)
    }
  })
}

/** `SameSite=Lax`, because the browser returns from another site. */
function flowCookie(origin: string) {
  const secure = origin.startsWith('https:')
  const options = { ...COOKIE_OPTIONS, sameSite: 'lax', secure, maxAge: FLOW_MS / 1_000 } as const
  return { name: secure ? '__Host-inflow-oidc' : 'inflow-oidc', options }
}
