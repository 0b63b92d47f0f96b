import type { Interceptor } from '@connectrpc/connect'
import { callerKey } from '../../auth/caller.ts'
import type { PolicyOf } from '../../auth/method-policy.ts'
import type { RateLimits } from '../../auth/rate-limits/rate-limits.ts'
import type { TokenBucket } from '../../auth/rate-limits/token-bucket.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import { authorizationOf, type CallContext, callContextKey } from '../rpc/call-context.ts'

/**
 * Refuses whoever calls too often, before anything is looked up. It runs before authentication.
 *
 * The limit of an address is for businesses: internal services call as often as their tokens let
 * them. Where credentials from an address keep failing, only those are looked at that have let
 * their callers in lately, so that a bad neighbour behind the same proxy shuts nobody out. Failures
 * under way at the same time all come through, and are owed.
 */
export function limitArrivals(limits: RateLimits, clock: Clock, policyOf: PolicyOf): Interceptor {
  return (next) => (request) => {
    const origin = request.contextValues.get(callContextKey)
    if (origin === undefined) return next(request)
    const { address } = origin
    const forBusinesses = policyOf(request.method).credential === 'secret key'
    const bucket = forBusinesses ? limits.address(address) : undefined
    if (bucket !== undefined && !bucket.take(clock.now())) {
      throw refuse(origin, bucket, 'requests from this address')
    }
    const failures = limits.failures(address)
    if (failures !== undefined && !failures.has(clock.now())) {
      const credential = authorizationOf(request)
      if (credential !== null && !limits.recentlyAuthenticated(credential)) {
        throw refuse(origin, failures, 'failed authentications from this address')
      }
    }
    return next(request).catch((error: unknown) => {
      // Without a credential nothing was tried, nor looked up.
      const credential = authorizationOf(request)
      const failed = error instanceof Fault && error.reason === 'unauthorized'
      if (failed && credential !== null) limits.fail(address, credential)
      throw error
    })
  }
}

/** Refuses keys and tokens that call too often. It runs after authentication. */
export function limitCallers(limits: RateLimits, clock: Clock): Interceptor {
  return (next) => (request) => {
    const caller = request.contextValues.get(callerKey)
    const origin = request.contextValues.get(callContextKey)
    if (caller === undefined || origin === undefined) return next(request)
    const bucket = limits.caller(caller, request)
    if (bucket === undefined) return next(request)
    origin.rateLimit = bucket
    if (bucket.take(clock.now())) return next(request)
    throw refuse(
      origin,
      bucket,
      `requests with this ${caller.kind === 'business' ? 'key' : 'token'}`,
    )
  }
}

function refuse(origin: CallContext, bucket: TokenBucket, what: string): Fault {
  origin.rateLimit = bucket
  const { retryAfterSeconds } = bucket
  const text = `Too many ${what}; try again in ${retryAfterSeconds} s`
  return new Fault('rate_limited', text, { retryAfterSeconds })
}
