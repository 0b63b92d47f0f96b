import type { Interceptor, StreamRequest, StreamResponse } from '@connectrpc/connect'
import { type Caller, callerKey } from '../../auth/caller.ts'
import type { MethodPolicy, PolicyOf } from '../../auth/method-policy.ts'
import type { Failures, Form, RateLimits } from '../../auth/rate-limits/rate-limits.ts'
import type { TokenBucket } from '../../auth/rate-limits/token-bucket.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import { type CallContext, callContextKey } from '../invokers.ts'
import { credentialOf, hasCredential } from './authentication.ts'

/** Returns the form of a credential of a kind. */
type FormOf = (kind: MethodPolicy['credential'], credential: string) => Form

const FROM_ADDRESS = 'requests from this address'

/**
 * Applies the rate limits of addresses, before authentication and without a look-up.
 *
 * | call | spends from |
 * |---|---|
 * | of a business, authenticated | the limit of its address |
 * | without a credential | an equal, separate limit of its address |
 * | with a wrong credential | the limit of failures of its address |
 * | of an internal service | no limit of the address: its token has a limit |
 *
 * Many callers can share the address of a proxy, and must not be locked out by a caller that guesses credentials. After too
 * many failures from an address, only credentials that are known to be valid are looked up from it; others are refused.
 * Concurrent failures all pass, and are deducted afterwards.
 */
export function limitArrivals(
  limits: RateLimits,
  clock: Clock,
  policyOf: PolicyOf,
  formOfKind: FormOf,
): Interceptor {
  return (next) => (request) => {
    const context = request.contextValues.get(callContextKey)
    if (context === undefined) return next(request)
    const kind = policyOf(request.method).credential
    const given = hasCredential(request, kind)
    if (kind === 'secret key') limitAddress(limits, clock, context, given)
    const formOf = (text: string) => formOfKind(kind, text)
    const tried = () => credentialOf(request, kind) ?? ''
    if (given) limitFailures(limits, clock, context, tried, formOf)
    return next(request).catch((error: unknown) => {
      // A call without a credential is not a failed authentication.
      const authenticated = request.contextValues.get(callerKey) !== undefined
      if (!given || authenticated) throw error
      const wrong = error instanceof Fault && error.reason === 'unauthorized'
      if (wrong && limits.limitsFailures) {
        const credential = tried()
        limits.fail(context.address, formOf(credential), credential)
      } else if (kind === 'secret key') limits.address(context.address)?.debit(1, clock.now())
      throw error
    })
  }
}

/** @throws Fault rate_limited */
function limitAddress(limits: RateLimits, clock: Clock, context: CallContext, given: boolean) {
  const { address } = context
  const bucket = given ? limits.address(address) : limits.anonymous(address)
  if (bucket === undefined) return
  const admitted = given ? bucket.has(clock.now()) : bucket.take(clock.now())
  if (!admitted) throw refuse(context, bucket, FROM_ADDRESS)
}

/**
 * Refuses a credential that is not known to be valid, after too many failures from an address.
 *
 * @param tried returns the credential and its form; called only after too many failures
 * @throws Fault rate_limited
 */
export function limitFailures(
  limits: RateLimits,
  clock: Clock,
  context: Pick<CallContext, 'address' | 'rateLimit'>,
  tried: () => string,
  formOf: (credential: string) => Form,
): void {
  const failures = limits.failures(context.address)
  if (failures === undefined || !isExhausted(failures, clock)) return
  const credential = tried()
  const form = formOf(credential)
  const bucket = failures[form]
  if (bucket === undefined || bucket.has(clock.now()) || limits.known.has(credential)) return
  // The credential may have been issued a moment ago.
  if (form === 'well-formed') limits.known.refresh()
  throw refuse(context, bucket, 'failed authentications from this address')
}

/** Whether any limit of failures is reached. If none is, the form of the credential need not be determined. */
function isExhausted(failures: Failures, clock: Clock): boolean {
  const nowMs = clock.now()
  return Object.values(failures).some((bucket) => !bucket.has(nowMs))
}

/** Applies the rate limits of keys, tokens and the addresses of businesses, after authentication. */
export function limitCallers(limits: RateLimits, clock: Clock): Interceptor {
  return (next) => (request) => {
    const caller = request.contextValues.get(callerKey)
    const context = request.contextValues.get(callContextKey)
    if (caller === undefined || context === undefined) return next(request)
    if (caller.kind === 'business') {
      const address = limits.address(context.address)
      if (address !== undefined && !address.take(clock.now())) {
        throw refuse(context, address, FROM_ADDRESS)
      }
    }
    const bucket = limits.caller(caller, () =>
      credentialOf(request, caller.kind === 'business' ? 'secret key' : 'token'),
    )
    if (bucket === undefined) return next(request)
    context.rateLimit = bucket
    if (bucket.take(clock.now())) return next(request)
    throw refuse(
      context,
      bucket,
      `requests with this ${caller.kind === 'business' ? 'key' : 'token'}`,
    )
  }
}

function refuse(context: Pick<CallContext, 'rateLimit'>, bucket: TokenBucket, what: string): Fault {
  context.rateLimit = bucket
  const { retryAfterSeconds } = bucket
  const text = `Too many ${what}; try again in ${retryAfterSeconds} s`
  return new Fault('rate_limited', text, { retryAfterSeconds })
}

/** When a caller with too many streams should retry: a stream ends by itself within half an hour. */
const RETRY_AFTER_SECONDS = 30

/**
 * Bounds the streams that one caller has open at once, after authentication, so that a leaked token,
 * or a subscriber that leaves its streams open, cannot use all of them.
 */
export function limitStreams(streamsPerCallerMax: number): Interceptor {
  const open = new Map<string, number>()
  const limited = async (
    request: StreamRequest,
    caller: Caller,
    next: ReturnType<Interceptor>,
  ): Promise<StreamResponse> => {
    const id = caller.kind === 'internal' ? caller.tokenId : caller.keyId
    const count = open.get(id) ?? 0
    if (count >= streamsPerCallerMax) {
      const text = `The credential has ${count} streams open, and may have no more: close some first`
      throw new Fault('rate_limited', text, { retryAfterSeconds: RETRY_AFTER_SECONDS })
    }
    open.set(id, count + 1)
    let released = false
    const release = (): void => {
      if (released) return
      released = true
      const left = (open.get(id) ?? 1) - 1
      if (left === 0) open.delete(id)
      else open.set(id, left)
    }
    // A stream whose client is gone may never be read.
    request.signal.addEventListener('abort', release, { once: true })
    try {
      const response = await next(request)
      if (!response.stream) throw new Error('a streaming request has a streaming response')
      return { ...response, message: releasing(response.message, release) }
    } catch (error) {
      release()
      throw error
    }
  }
  return (next) => (request) => {
    const caller = request.contextValues.get(callerKey)
    return request.stream && caller ? limited(request, caller, next) : next(request)
  }
}

/** Yields the items of a source, and calls `release` however the iteration ends, even if nothing was read. */
function releasing<T>(source: AsyncIterable<T>, release: () => void): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const inner = source[Symbol.asyncIterator]()
      return {
        async next() {
          try {
            const item = await inner.next()
            if (item.done === true) release()
            return item
          } catch (error) {
            release()
            throw error
          }
        },
        async return(value?: unknown) {
          release()
          return (await inner.return?.(value)) ?? { done: true, value }
        },
      }
    },
  }
}
