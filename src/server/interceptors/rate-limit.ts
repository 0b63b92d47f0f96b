import type { Interceptor } from '@connectrpc/connect'
import { callerKey } from '../../auth/caller.ts'
import type { MethodPolicy, PolicyOf } from '../../auth/method-policy.ts'
import type { Failures, Form, RateLimits } from '../../auth/rate-limits/rate-limits.ts'
import type { TokenBucket } from '../../auth/rate-limits/token-bucket.ts'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import { authorizationOf, type CallContext, callContextKey } from '../rpc/call-context.ts'
import { type CredentialIdOf, credentialOf } from './credential.ts'

const FROM_ADDRESS = 'requests from this address'

/**
 * Applies the rate limits of addresses, before authentication and without a look-up.
 *
 * The limit of an address applies to businesses; internal services are limited by their tokens. It
 * is spent by authenticated calls; calls without a credential spend an equal one of their own, and
 * wrong credentials that of failures. So callers that share an address, behind a proxy, are not
 * locked out by one that knows no right credential: after too many failures from an address, the
 * credentials that are known to be right are accepted from it, and others refused. Failures that are
 * in progress at the same time all pass, and are deducted afterwards.
 */
export function limitArrivals(
  limits: RateLimits,
  clock: Clock,
  policyOf: PolicyOf,
  credentialIdOf: CredentialIdOf,
): Interceptor {
  return (next) => (request) => {
    const context = request.contextValues.get(callContextKey)
    if (context === undefined) return next(request)
    const kind = policyOf(request.method).credential
    const given = authorizationOf(request) !== null
    if (kind === 'secret key') limitAddress(limits, clock, context, given)
    const failures = given ? limits.failures(context.address) : undefined
    if (failures !== undefined && isExhausted(failures, clock)) {
      const credential = credentialOf(request) ?? ''
      const form = formOf(credentialIdOf, kind, credential)
      const bucket = failures[form]
      if (bucket !== undefined && !bucket.has(clock.now()) && !limits.known.has(credential)) {
        // It may have been issued a moment ago.
        if (form === 'well-formed') limits.known.refresh()
        throw refuse(context, bucket, 'failed authentications from this address')
      }
    }
    return next(request).catch((error: unknown) => {
      // A call without a credential tried none.
      const authenticated = request.contextValues.get(callerKey) !== undefined
      if (!given || authenticated) throw error
      const credential = credentialOf(request) ?? ''
      const wrong = error instanceof Fault && error.reason === 'unauthorized'
      if (wrong && limits.limitsFailures) {
        limits.fail(context.address, formOf(credentialIdOf, kind, credential), credential)
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

/** Whether a limit of failures is reached; only then the form of a credential matters. */
function isExhausted(failures: Failures, clock: Clock): boolean {
  const nowMs = clock.now()
  return Object.values(failures).some((bucket) => !bucket.has(nowMs))
}

function formOf(
  credentialIdOf: CredentialIdOf,
  kind: MethodPolicy['credential'],
  credential: string,
): Form {
  return credentialIdOf(kind, credential) === undefined ? 'malformed' : 'well-formed'
}

/** Applies the rate limits of keys and tokens, and that of a business's address, after authentication. */
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
    const bucket = limits.caller(caller, () => credentialOf(request))
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
