import { LRUCache } from 'lru-cache'
import { addressGroup, isLoopback } from '../../core/addresses.ts'
import { growingTo } from '../../core/growing-to.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { Caller } from '../caller.ts'
import type { KnownCredentials, Recorded } from './known-credentials.ts'
import { type RateLimit, SharedBucket, type TokenBucket } from './token-bucket.ts'

/** The default limits; undefined: no limit. */
interface DefaultLimits {
  /** For each secret key. */
  readonly key: RateLimit | undefined
  /** For each internal token. */
  readonly token: RateLimit | undefined
  /** For each address, over all secret keys used from it. */
  readonly address: RateLimit | undefined
  /** For failed authentications, by address. */
  readonly failed: RateLimit | undefined
}

/**
 * Whether a credential has the form that its method needs. Only well-formed credentials cost a
 * look-up, so the two forms have separate limits.
 */
export type Form = 'well-formed' | 'malformed'

/** The buckets of failed authentications from an address. A form has no bucket before its first failure. */
export type Failures = Readonly<Partial<Record<Form, TokenBucket>>>

/** The buckets of one instance. Their number is bounded: the least recently used are evicted. */
export interface RateLimits {
  /** Returns the bucket of authenticated requests from an address; undefined: no limit. */
  address(address: string): SharedBucket | undefined
  /** Returns the bucket of requests without a credential from an address; undefined: no limit. */
  anonymous(address: string): SharedBucket | undefined
  /** Whether failed authentications are limited. */
  readonly limitsFailures: boolean
  /** Returns the buckets of failed authentications from an address; undefined before the first. */
  failures(address: string): Failures | undefined
  /** Counts a failed authentication from an address. */
  fail(address: string, form: Form, credential: string): void
  /** The credentials that are looked up even after too many failures. */
  readonly known: KnownCredentials
  /**
   * Returns the bucket of an authenticated caller; undefined: no limit.
   *
   * @param credentialOf returns the credential of the caller; rarely called
   */
  caller(caller: Caller, credentialOf: () => string | undefined): SharedBucket | undefined
}

interface Options {
  readonly defaults: DefaultLimits
  readonly known: KnownCredentials
  /** Called when a bucket has spent enough tokens to share this with the other instances. */
  readonly report: (bucket: SharedBucket, urgent: boolean) => void
}

/** The most entries of each map, about 10 MB. */
const BUCKETS_MAX = 50_000

/** How often the credential of a caller is recorded as authenticated. */
const RECORD_MS = 60_000

/** An authenticated caller; `bucket` is undefined if there is no limit. */
interface KnownCaller extends Recorded {
  bucket: SharedBucket | undefined
  /** The limit of the caller itself; undefined: the default. */
  limit: RateLimit | undefined
}

/** The names of the buckets of failures, by form. */
const FAILED: Readonly<Record<Form, string>> = { 'well-formed': 'failed', malformed: 'malformed' }

/**
 * A loopback address has no address limit, only the limits of keys and of failures: the caller is a proxy that
 * TRUSTED_PROXIES does not name, or a program of the operator.
 */
export function createRateLimits(
  { clock }: Runtime,
  { defaults, known, report }: Options,
): RateLimits {
  const failures = new LRUCache<string, Partial<Record<Form, SharedBucket>>>(growingTo(BUCKETS_MAX))
  const callers = new LRUCache<string, KnownCaller>(growingTo(BUCKETS_MAX))
  const createBucket = (name: string, limit: RateLimit) =>
    new SharedBucket(name, limit, clock.now(), report)
  const perAddress = (name: string) => createPerAddress(name, defaults.address, createBucket)
  /** Creates the bucket of a caller, or changes the limit of its bucket. */
  const limitTo = (
    caller: KnownCaller,
    name: string,
    limit: RateLimit | undefined,
    nowMs: number,
  ) => {
    if (limit === undefined) caller.bucket = undefined
    else if (caller.bucket === undefined) caller.bucket = createBucket(name, limit)
    else caller.bucket.change(limit, nowMs)
  }
  return {
    address: perAddress('address'),
    anonymous: perAddress('anonymous'),
    limitsFailures: defaults.failed !== undefined,
    failures: (address) => (failures.size === 0 ? undefined : failures.get(addressGroup(address))),
    fail(address, form, credential) {
      if (defaults.failed === undefined) return
      if (form === 'well-formed') known.forget(credential)
      const group = addressGroup(address)
      const buckets = failures.get(group) ?? {}
      buckets[form] ??= createBucket(`${FAILED[form]} ${group}`, defaults.failed)
      failures.set(group, buckets)
      buckets[form].debit(1, clock.now())
    },
    known,
    caller(caller, credentialOf) {
      const kind = caller.kind === 'business' ? 'key' : 'token'
      const id = caller.kind === 'business' ? caller.keyId : caller.tokenId
      const limit = caller.kind === 'business' ? caller.rateLimit : undefined
      const nowMs = clock.now()
      let found = callers.get(id)
      if (found === undefined || found.limit !== limit) {
        found ??= { bucket: undefined, limit, authenticatedAtMs: Number.NEGATIVE_INFINITY }
        found.limit = limit
        limitTo(found, `${kind} ${id}`, limit ?? defaults[kind], nowMs)
        callers.set(id, found)
      }
      if (Math.abs(nowMs - found.authenticatedAtMs) >= RECORD_MS) {
        found.authenticatedAtMs = nowMs
        const credential = credentialOf()
        if (credential !== undefined) known.record(credential, found)
      }
      return found.bucket
    },
  }
}

/** Returns the bucket of an address, by its group; undefined: no limit. */
function createPerAddress(
  name: string,
  limit: RateLimit | undefined,
  createBucket: (name: string, limit: RateLimit) => SharedBucket,
): (address: string) => SharedBucket | undefined {
  if (limit === undefined) return () => undefined
  const buckets = new LRUCache<string, SharedBucket | 'unlimited'>(growingTo(BUCKETS_MAX))
  return (address) => {
    const group = addressGroup(address)
    let bucket = buckets.get(group)
    if (bucket === undefined) {
      bucket = isLoopback(group) ? 'unlimited' : createBucket(`${name} ${group}`, limit)
      buckets.set(group, bucket)
    }
    return bucket === 'unlimited' ? undefined : bucket
  }
}
