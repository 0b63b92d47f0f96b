import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { cors as connectHeaders } from '@connectrpc/connect'
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import { docUrl, Fault, REASONS } from '../../core/errors.ts'
import type { CallContext } from '../invokers.ts'

/** The headers of every response of the HTTP server. */
export type SecurityHeaders = Readonly<Record<string, string>>

/** A year, in seconds. */
const HSTS_SECONDS = 365 * 86_400

/**
 * The Content-Security-Policy is for API responses, which load and run nothing. Pages replace it by their own.
 *
 * Written by hand: @fastify/helmet computes the headers again for every request, which makes an empty request cost a
 * quarter more. Responses outside of Fastify's hooks would need this list anyway.
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

/** The headers that scripts can read in addition to the CORS-safelisted ones. */
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
 * set themselves, so credentials of the browser, such as cookies, are not allowed.
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
    // False disables CORS except for `Vary`. With a list, preflight responses to other origins would still name the methods.
    origin: (origin, respond) => respond(null, origin && allowed.has(origin) ? origin : false),
    methods: ALLOWED_METHODS,
    allowedHeaders: ALLOWED_HEADERS,
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
    // Otherwise the plugin responds to incomplete preflights itself, without our error envelope.
    strictPreflight: false,
  })
}

/**
 * The headers of the caller's rate limit (draft-ietf-httpapi-ratelimit-headers-06, which current clients read); no headers
 * if the caller has no limit.
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

/** Returns the status, headers and error envelope of a fault. */
export function toErrorResponse(fault: Fault, requestId: string) {
  const status = REASONS[fault.reason][1]
  const headers = errorHeaders(fault)
  const body = JSON.stringify({
    status: false,
    message: inRest(fault.message),
    code: fault.reason,
    errors: fault.fields.length > 0 ? fault.fields.map(faultInRest) : undefined,
    doc_url: docUrl(fault.reason),
    request_id: requestId,
  })
  return { status, headers, body }
}

/** Replaces JSON names of fields in a text by their REST names (`restNameOf`). */
function inRest(text: string): string {
  return text.replace(
    /\bpage(Size|Token)\b/g,
    (_name, part: string) => `page_${part.toLowerCase()}`,
  )
}

const faultInRest = (fault: Fault['fields'][number]) => ({ ...fault, field: inRest(fault.field) })

/** The headers that HTTP requires or recommends for a status. */
export function errorHeaders({ reason, retryAfterSeconds }: Fault): Record<string, string> {
  const status = REASONS[reason][1]
  const headers: Record<string, string> = {}
  if (status === 401) headers['www-authenticate'] = 'Bearer'
  if (status === 405) headers['allow'] = 'POST'
  if (retryAfterSeconds !== undefined) headers['retry-after'] = `${retryAfterSeconds}`
  return headers
}

/** The fault of a request that is not valid HTTP. */
export function malformedRequest(text: string, cause?: unknown): Fault {
  return new Fault('malformed_request', text, { cause })
}

type HeaderList = readonly (readonly [name: string, value: string])[]

export interface MalformedHandlers {
  /** The listener for `request`; it has to run before all others. */
  readonly onRequest: (request: IncomingMessage, response: ServerResponse) => void
  readonly onClientError: (error: Error & { readonly code?: string }, socket: Socket) => void
}

/**
 * Responds with the error envelope if Node's parser rejects a request or the request times out, and closes the connection.
 */
export function handleMalformed(
  requestIds: () => string,
  securityHeaders: HeaderList,
): MalformedHandlers {
  const latest = new WeakMap<Socket, ServerResponse>()
  // Do not write after a response that has begun, or that waits for an earlier response.
  const hasBegun = (socket: Socket): boolean => {
    const response = latest.get(socket)
    if (response === undefined || response.writableFinished) return false
    return response.socket === null || response.headersSent
  }
  return {
    onRequest: (request, response) => latest.set(request.socket, response),
    onClientError(error, socket) {
      if (error.code === 'ECONNRESET' || socket.destroyed) return
      if (socket.writable && !hasBegun(socket)) {
        socket.write(responseTo(error, requestIds(), securityHeaders))
      }
      socket.destroySoon()
    },
  }
}

function responseTo(
  error: { readonly code?: string },
  requestId: string,
  securityHeaders: HeaderList,
): string {
  const { status, headers, body } = toErrorResponse(faultOf(error), requestId)
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `x-request-id: ${requestId}`,
    ...[...Object.entries(headers), ...securityHeaders].map(([name, value]) => `${name}: ${value}`),
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

function faultOf({ code }: { readonly code?: string }): Fault {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Fault('request_timeout', 'The request did not arrive in time')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Fault('headers_too_large', 'The headers are larger than 16 KiB')
  }
  return malformedRequest('The request is not HTTP')
}
