import type { IncomingHttpHeaders } from 'node:http'
import type { ContextKey, StreamRequest, UnaryRequest } from '@connectrpc/connect'
import { type CallSource, callSourceKey } from '../../auth/caller.ts'
import type { Fault } from '../../core/errors.ts'
import type { Span } from '../../tracing/tracing.ts'

/** The protocols that a call can come over. */
export type Protocol = 'rest' | 'connect' | 'grpc'

/** What is known of a call before its body is read; each protocol makes its own. */
export interface CallContext extends CallSource {
  readonly protocol: Protocol
  readonly header: Headers
  /** The Authorization header where it is at hand without `header`; null: the caller sent none. */
  readonly authorization?: string | null
  /** Aborts when the caller disconnects or its deadline has passed. */
  readonly signal: AbortSignal
  /** The URI in the client's certificate, where the server asks for certificates. */
  readonly clientUri?: string | undefined
  /** The secret of a session: the cookie of a request from the server's own origin. */
  readonly session?: string | undefined
  /** Ends the call, even if the caller does not read its response. */
  abort?(fault: Fault): void
  /** The caller's rate limit, once an interceptor has applied it. */
  rateLimit?: RateLimitState | undefined
  /** Set by the interceptor that traces calls. */
  span?: Span | undefined
}

/** What a response states about a rate limit. */
interface RateLimitState {
  readonly limitText: string
  readonly remaining: number
  readonly resetSeconds: number
}

/** The context of the current call, for interceptors; implementations see it as a `CallSource`. */
export const callContextKey = callSourceKey as ContextKey<CallContext | undefined>

/** The Authorization header of a request; null: the caller sent none. */
export function authorizationOf(request: UnaryRequest | StreamRequest): string | null {
  const known = request.contextValues.get(callContextKey)?.authorization
  return known === undefined ? request.header.get('authorization') : known
}

/** The longest deadline that a call may request. */
export const TIMEOUT_MAX_MS = 3_600_000

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

/**
 * Shortens deadlines that are refused anyway to just above the maximum. Connect sets a timer of the
 * requested length before it refuses, and Node prints a warning for each that is too long.
 */
export function boundTimeouts(headers: IncomingHttpHeaders): void {
  if (Number(headers['connect-timeout-ms']) > TIMEOUT_MAX_MS) {
    headers['connect-timeout-ms'] = `${TIMEOUT_MAX_MS + 1}`
  }
  const [, value, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(`${headers['grpc-timeout']}`) ?? []
  if (Number(value) * (UNIT_MS[unit] ?? 0) > TIMEOUT_MAX_MS) {
    headers['grpc-timeout'] = `${TIMEOUT_MAX_MS + 1}m`
  }
}
