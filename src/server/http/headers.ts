import { cors as connectHeaders } from '@connectrpc/connect'
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import type { CallContext } from '../rpc/invokers.ts'

/** The headers of every response of the HTTP server. */
export type SecurityHeaders = Readonly<Record<string, string>>

/** A year, in seconds. */
const HSTS_SECONDS = 365 * 86_400

/**
 * The policy suits API responses, which load and run nothing. A page replaces it by its own.
 *
 * Written by hand: @fastify/helmet computes the same headers for every request, which makes an empty
 * request cost a quarter more, and responses outside of Fastify's hooks would need this list too.
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

/** How long a browser may cache a preflight response, in seconds; Chromium's maximum. */
const PREFLIGHT_SECONDS = 7_200

const ALLOWED_METHODS = ['POST', 'GET'].join(', ')
const ALLOWED_HEADERS = ['Authorization', ...connectHeaders.allowedHeaders].join(', ')

/** The headers that a script may read, besides those that it may always read. */
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
 * Allows only scripts of the given origins to read responses. Scripts send keys in a header that they
 * set themselves, so the browser's own credentials are not allowed.
 *
 * @param origins empty: CORS stays off
 */
export async function allowOrigins(
  app: FastifyInstance,
  origins: readonly string[],
): Promise<void> {
  if (origins.length === 0) return
  const allowed = new Set(origins)
  await app.register(cors, {
    // False disables CORS except for `Vary`. A list would still name the methods to other origins.
    origin: (origin, respond) => respond(null, origin && allowed.has(origin) ? origin : false),
    methods: ALLOWED_METHODS,
    allowedHeaders: ALLOWED_HEADERS,
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
    // Otherwise the plugin answers incomplete preflights itself, without our error envelope.
    strictPreflight: false,
  })
}

/**
 * The headers of the caller's rate limit (draft-ietf-httpapi-ratelimit-headers-06, which clients
 * read today); none if the caller has no limit.
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
