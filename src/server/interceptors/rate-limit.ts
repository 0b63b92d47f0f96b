import type { Interceptor } from '@connectrpc/connect'
import { callerKey } from '../../auth/caller.ts'
import type { PolicyOf } from '../../auth/method-policy.ts'
import type { RateLimits } from '../../auth/rate-limits/rate-limits.ts'
import type { TokenBucket } from '../../auth/rate-limits/token-bucket.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import { authorizationOf, type CallContext, callContextKey } from '../rpc/call-context.ts'

/**
 * Applies the rate limits of addresses, before authentication and without a look-up.
 *
 * The limit of an address applies to businesses; internal services are limited by their tokens. After
 * too many failed authentications from an address, only credentials that succeeded lately are
 * accepted from it, so that one caller behind a proxy does not lock out the others. Failures that
 * are in progress at the same time all pass, and are deducted afterwards.
 */
export function limitArrivals(limits: RateLimits, clock: Clock, policyOf: PolicyOf): Interceptor {
  return (next) => (request) => {
    const context = request.contextValues.get(callContextKey)
    if (context === undefined) return next(request)
    const { address } = context
    const forBusinesses = policyOf(request.method).credential === 'secret key'
    const bucket = forBusinesses ? limits.address(address) : undefined
    if (bucket !== undefined && !bucket.take(clock.now())) {
      throw refuse(context, bucket, 'requests from this address')
    }
    const failures = limits.failures(address)
    if (failures !== undefined && !failures.has(clock.now())) {
      const credential = authorizationOf(request)
      if (credential !== null && !limits.recentlyAuthenticated(credential)) {
        throw refuse(context, failures, 'failed authentications from this address')
      }
    }
    return next(request).catch((error: unknown) => {
      // A call without a credential tried none.
      const credential = authorizationOf(request)
      const failed = error instanceof Fault && error.reason === 'unauthorized'
      if (failed && credential !== null) limits.fail(address, credential)
      throw error
    })
  }
}

/** Applies the rate limits of keys and tokens, after authentication. */
export function limitCallers(limits: RateLimits, clock: Clock): Interceptor {
  return (next) => (request) => {
    const caller = request.contextValues.get(callerKey)
    const context = request.contextValues.get(callContextKey)
    if (caller === undefined || context === undefined) return next(request)
    const bucket = limits.caller(caller, request)
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

function refuse(context: CallContext, bucket: TokenBucket, what: string): Fault {
  context.rateLimit = bucket
  const { retryAfterSeconds } = bucket
  const text = `Too many ${what}; try again in ${retryAfterSeconds} s`
  return new Fault('rate_limited', text, { retryAfterSeconds })
}
