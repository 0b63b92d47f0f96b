import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../core/clock.ts'
import type { Caller } from '../caller.ts'
import { addressGroup, isLoopback } from './address-group.ts'
import { SharedBucket } from './shared-bucket.ts'
import type { RateLimit, TokenBucket } from './token-bucket.ts'

/** The default limits; undefined: no limit. */
export interface DefaultLimits {
  /** For each secret key. */
  readonly key: RateLimit | undefined
  /** For each internal token. */
  readonly token: RateLimit | undefined
  /** For each address, over all secret keys used from it. */
  readonly address: RateLimit | undefined
  /** For failed authentications, by address. */
  readonly failed: RateLimit | undefined
}

/** A request. Its headers are built lazily, as they are rarely needed. */
interface Credentialed {
  readonly header: Headers
}

/** The buckets of one instance. Their number is bounded: the least recently used are evicted. */
export interface RateLimits {
  /** Returns the bucket of all requests from an address; undefined: no limit. */
  address(address: string): SharedBucket | undefined
  /** Returns the bucket of failed authentications from an address; undefined before the first. */
  failures(address: string): TokenBucket | undefined
  /** Counts a failed authentication from an address. */
  fail(address: string, credential: string): void
  /** Whether a credential recently authenticated a caller. */
  recentlyAuthenticated(credential: string): boolean
  /** Returns the bucket of the authenticated caller of a request; undefined: no limit. */
  caller(caller: Caller, request: Credentialed): SharedBucket | undefined
}

interface Options {
  readonly defaults: DefaultLimits
  readonly clock: Clock
  /** Called when a bucket has spent tokens that the other instances should learn of. */
  readonly report: (bucket: SharedBucket, urgent: boolean) => void
}

/** The size of each map, about 10 MB when full. */
const BUCKETS_MAX = 50_000

/** How often the credential of a caller is recorded as authenticated. */
const RECORD_MS = 60_000

/** An authenticated caller; `bucket` is undefined if there is no limit. */
interface KnownCaller {
  bucket: SharedBucket | undefined
  /** The limit of the caller itself; undefined: the default. */
  limit: RateLimit | undefined
  authenticatedAtMs: number
}

/**
 * Loopback addresses have no address limit, only the limits of their keys and of failures: their
 * caller is a proxy that TRUSTED_PROXIES does not name, or a program of the operator.
 */
export function createRateLimits({ defaults, clock, report }: Options): RateLimits {
  const max = BUCKETS_MAX
  const addresses = new LRUCache<string, SharedBucket | 'unlimited'>({ max })
  const failures = new LRUCache<string, SharedBucket>({ max })
  const callers = new LRUCache<string, KnownCaller>({ max })
  const authenticated = createAuthenticated()
  const createBucket = (name: string, limit: RateLimit) =>
    new SharedBucket(name, limit, clock.now(), report)
  /** Creates the bucket of a caller, or changes the limit of its bucket. */
  const limitTo = (
    known: KnownCaller,
    name: string,
    limit: RateLimit | undefined,
    nowMs: number,
  ) => {
    if (limit === undefined) known.bucket = undefined
    else if (known.bucket === undefined) known.bucket = createBucket(name, limit)
    else known.bucket.change(limit, nowMs)
  }
  return {
    address(address) {
      if (defaults.address === undefined) return undefined
      const group = addressGroup(address)
      let bucket = addresses.get(group)
      if (bucket === undefined) {
        bucket = isLoopback(group)
          ? 'unlimited'
          : createBucket(`address ${group}`, defaults.address)
        addresses.set(group, bucket)
      }
      return bucket === 'unlimited' ? undefined : bucket
    },
    failures: (address) => (failures.size === 0 ? undefined : failures.get(addressGroup(address))),
    fail(address, credential) {
      if (defaults.failed === undefined) return
      authenticated.forget(credential)
      const group = addressGroup(address)
      const bucket = failures.get(group) ?? createBucket(`failed ${group}`, defaults.failed)
      failures.set(group, bucket)
      bucket.debit(1, clock.now())
    },
    recentlyAuthenticated: authenticated.has,
    caller(caller, request) {
      const kind = caller.kind === 'business' ? 'key' : 'token'
      const id = caller.kind === 'business' ? caller.keyId : caller.tokenId
      const limit = caller.kind === 'business' ? caller.rateLimit : undefined
      const nowMs = clock.now()
      let known = callers.get(id)
      if (known === undefined || known.limit !== limit) {
        known ??= { bucket: undefined, limit, authenticatedAtMs: Number.NEGATIVE_INFINITY }
        known.limit = limit
        limitTo(known, `${kind} ${id}`, limit ?? defaults[kind], nowMs)
        callers.set(id, known)
      }
      if (Math.abs(nowMs - known.authenticatedAtMs) >= RECORD_MS)
        authenticated.record(known, request, nowMs)
      return known.bucket
    },
  }
}

/**
 * The callers that authenticated recently. Keyed by digest, so that no credential stays in memory for
 * longer than in the credential cache.
 */
function createAuthenticated() {
  const callers = new LRUCache<string, KnownCaller>({ max: BUCKETS_MAX })
  return {
    has: (credential: string) => callers.get(digestOf(credential)) !== undefined,
    record(known: KnownCaller, { header }: Credentialed, nowMs: number): void {
      known.authenticatedAtMs = nowMs
      const credential = header.get('authorization')
      if (credential !== null) callers.set(digestOf(credential), known)
    },
    forget(credential: string): void {
      if (callers.size === 0) return
      const digest = digestOf(credential)
      const known = callers.get(digest)
      // It may be a valid key at the wrong method: its next successful call records it again.
      if (known !== undefined) known.authenticatedAtMs = Number.NEGATIVE_INFINITY
      callers.delete(digest)
    },
  }
}

function digestOf(credential: string): string {
  return hash('sha256', credential, 'base64')
}
