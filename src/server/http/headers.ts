import { cors as connectHeaders } from '@connectrpc/connect'
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import type { CallContext } from '../rpc/call-context.ts'

/** What every answer of the HTTP door tells browsers, whatever it holds. */
export type SecurityHeaders = Readonly<Record<string, string>>

/** A year, in seconds. */
const HSTS_SECONDS = 365 * 86_400

/**
 * A page sets a policy of its own over this one: an answer of an API has nothing to load or run.
 *
 * Written by hand: @fastify/helmet works the same headers out anew for every request, which makes an
 * empty one cost a quarter more, and answers that no hook runs for would need this list all the same.
 */
export function securityHeaders(encrypted: boolean): SecurityHeaders {
  return {
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-frame-options': 'DENY',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    ...(encrypted && { 'strict-transport-security': `max-age=${HSTS_SECONDS}` }),
  }
}

/** How long a browser may remember what it was allowed, in seconds. Chromium keeps no more. */
const PREFLIGHT_SECONDS = 7_200

const ALLOWED_METHODS = ['POST', 'GET'].join(', ')
const ALLOWED_HEADERS = ['Authorization', ...connectHeaders.allowedHeaders].join(', ')

/** What a script may read of an answer, beside what it may read of any. */
const EXPOSED_HEADERS = [
  ...connectHeaders.exposedHeaders,
  'X-Request-Id',
  'Idempotent-Replayed',
  'Retry-After',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
].join(', ')

/**
 * Lets scripts of the given pages, and of no other, read the answers of every path. Keys travel in
 * a header that the script sets itself, so that no credentials of the browser's own are allowed.
 *
 * @param origins none: nothing is added
 */
export async function allowOrigins(
  app: FastifyInstance,
  origins: readonly string[],
): Promise<void> {
  if (origins.length === 0) return
  const allowed = new Set(origins)
  await app.register(cors, {
    // False: as if there were no CORS, but for `Vary`. A list would still tell others of methods.
    origin: (origin, answer) => answer(null, origin && allowed.has(origin) ? origin : false),
    methods: ALLOWED_METHODS,
    allowedHeaders: ALLOWED_HEADERS,
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
    // What is no preflight is not told so in a form of its own.
    strictPreflight: false,
  })
}

/**
 * Where a caller stands with its limit: the headers that clients read today
 * (draft-ietf-httpapi-ratelimit-headers-06). None where there is no limit.
 */
export function rateLimitHeaders({
  rateLimit,
}: CallContext): readonly (readonly [string, string])[] {
  if (rateLimit === undefined) return []
  return [
    ['ratelimit-limit', rateLimit.limitText],
    ['ratelimit-remaining', `${rateLimit.remaining}`],
    ['ratelimit-reset', `${rateLimit.resetSeconds}`],
  ]
}
