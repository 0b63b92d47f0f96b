import cookies from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { RateLimits } from '../../auth/rate-limits/rate-limits.ts'
import type { AuthenticateSession } from '../../auth/sessions/authenticate-session.ts'
import type { SignOut } from '../../auth/sessions/end-session.ts'
import type { OpenedSession } from '../../auth/sessions/open-session.ts'
import { idIn } from '../../auth/sessions/session-secret.ts'
import type { SignIn, SignInCredential } from '../../auth/sessions/sign-in.ts'
import { tokenIdOf } from '../../auth/tokens/token-secret.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import { limitFailures } from '../interceptors/rate-limit.ts'
import { createLogRefusal } from '../interceptors/refusal-log.ts'
import { hasEncoding } from '../rest/gateway.ts'
import { parseBody } from '../rest/parse-body.ts'
import { type ConsoleOidc, registerConsoleOidc } from './console-oidc.ts'
import { type OwnOrigin, sessionCookie, sessionSecretOf } from './session-cookie.ts'

/** What signing in and out of the console needs. */
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

/** The largest body: a token has at most 200 characters. */
const BODY_BYTES_MAX = 4_096

/** The longest credential. */
const CREDENTIAL_CHARS_MAX = 512

/** Signing in to the console and out of it, under `/console`. */
export async function registerConsoleSessions(
  app: FastifyInstance,
  options: ConsoleSessions,
): Promise<void> {
  const { oidc, ownOrigin } = options
  const logRefusal = createLogRefusal(options.log)
  await app.register(async (scope) => {
    await scope.register(cookies)
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      '*',
      { parseAs: 'buffer', bodyLimit: BODY_BYTES_MAX },
      (_request, body, done) => done(null, body),
    )
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
    if (oidc !== undefined) {
      registerConsoleOidc(scope, oidc, {
        log: options.log,
        limits: options.limits,
        clock: options.clock,
        begin: (request, reply, begun) => replaceSession(options, request, reply, begun),
      })
    }
  })
}

/** Signing in is refused to other sites too: one could sign a browser in as its own user. */
function requireOwnOrigin(request: FastifyRequest, ownOrigin: OwnOrigin): string {
  const origin = ownOrigin.of(request)
  if (origin !== undefined) return origin
  const text = 'Only the pages of the console may sign in and out: the Origin header is another one'
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
  const id = tokenIdOf(credential) ?? idIn('sic', credential) ?? idIn('plk', credential)
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

/** Sets the cookie of a new session, and ends the one that the browser had: neither continues the other. */
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
