import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../core/clock.ts'
import type { Caller } from '../caller.ts'
import { addressGroup, isLoopback } from './address-group.ts'
import { SharedBucket } from './shared-bucket.ts'
import type { RateLimit, TokenBucket } from './token-bucket.ts'

/** The limits of everybody who has none of their own; undefined: none. */
export interface DefaultLimits {
  /** Of each secret key. */
  readonly key: RateLimit | undefined
  /** Of each internal token. */
  readonly token: RateLimit | undefined
  /** Of each address, over all secret keys used from it. */
  readonly address: RateLimit | undefined
  /** Of the failed authentications from each address. */
  readonly failed: RateLimit | undefined
}

/** A request. Its headers are made when they are asked for, which is seldom. */
interface Credentialed {
  readonly header: Headers
}

/** The buckets of one instance. They are bounded in number: the ones unused longest are forgotten. */
export interface RateLimits {
  /** The bucket of all requests from an address; none where there is no limit. */
  address(address: string): SharedBucket | undefined
  /** The bucket of the failed authentications from an address; none before the first. */
  failures(address: string): TokenBucket | undefined
  /** An authentication from an address failed. */
  fail(address: string, credential: string): void
  /** Whether a credential has let its caller in lately. */
  proved(credential: string): boolean
  /** The bucket of a caller that a request's credential let in; none where there is no limit. */
  caller(caller: Caller, request: Credentialed): SharedBucket | undefined
}

interface Options {
  readonly defaults: DefaultLimits
  readonly clock: Clock
  /** Called when a bucket has spent what the other instances should know of. */
  readonly tell: (bucket: SharedBucket, urgent: boolean) => void
}

/** Of each of the maps: some 10 MB when it is full. */
const BUCKETS_MAX = 50_000

/** How often it is written down anew that a credential lets its caller in. */
const PROVE_MS = 60_000

/** A caller who was let in; `bucket` is missing where there is no limit. */
interface Known {
  bucket: SharedBucket | undefined
  /** The caller's own; undefined: the default. */
  limit: RateLimit | undefined
  provedAtMs: number
}

/**
 * This machine's own addresses have no limit but the ones of their keys and of failures: what calls
 * from there is a proxy that was not declared, or a program of the operator.
 */
export function createRateLimits({ defaults, clock, tell }: Options): RateLimits {
  const max = BUCKETS_MAX
  const addresses = new LRUCache<string, SharedBucket | 'unlimited'>({ max })
  const failures = new LRUCache<string, SharedBucket>({ max })
  const callers = new LRUCache<string, Known>({ max })
  // Digests, so that no credential is kept for longer than authentication keeps it.
  const proofs = new LRUCache<string, Known>({ max })
  const open = (name: string, limit: RateLimit) => new SharedBucket(name, limit, clock.now(), tell)
  const prove = (known: Known, { header }: Credentialed, nowMs: number): void => {
    known.provedAtMs = nowMs
    const credential = header.get('authorization')
    if (credential !== null) proofs.set(digestOf(credential), known)
  }
  const disprove = (digest: string): void => {
    const known = proofs.get(digest)
    // It may have been a right key at the wrong method: its next good call proves it again.
    if (known !== undefined) known.provedAtMs = Number.NEGATIVE_INFINITY
    proofs.delete(digest)
  }
  /** Opens the bucket of a caller, or goes on with it under another limit. */
  const limitTo = (known: Known, name: string, limit: RateLimit | undefined, nowMs: number) => {
    if (limit === undefined) known.bucket = undefined
    else if (known.bucket === undefined) known.bucket = open(name, limit)
    else known.bucket.change(limit, nowMs)
  }
  return {
    address(address) {
      if (defaults.address === undefined) return undefined
      const group = addressGroup(address)
      let bucket = addresses.get(group)
      if (bucket === undefined) {
        bucket = isLoopback(group) ? 'unlimited' : open(`address ${group}`, defaults.address)
        addresses.set(group, bucket)
      }
      return bucket === 'unlimited' ? undefined : bucket
    },
    failures: (address) => (failures.size === 0 ? undefined : failures.get(addressGroup(address))),
    fail(address, credential) {
      if (defaults.failed === undefined) return
      if (proofs.size > 0) disprove(digestOf(credential))
      const group = addressGroup(address)
      const bucket = failures.get(group) ?? open(`failed ${group}`, defaults.failed)
      failures.set(group, bucket)
      bucket.owe(1, clock.now())
    },
    proved: (credential) => proofs.get(digestOf(credential)) !== undefined,
    caller(caller, request) {
      const kind = caller.kind === 'business' ? 'key' : 'token'
      const id = caller.kind === 'business' ? caller.keyId : caller.tokenId
      const limit = caller.kind === 'business' ? caller.rateLimit : undefined
      const nowMs = clock.now()
      let known = callers.get(id)
      if (known === undefined || known.limit !== limit) {
        known ??= { bucket: undefined, limit, provedAtMs: Number.NEGATIVE_INFINITY }
        known.limit = limit
        limitTo(known, `${kind} ${id}`, limit ?? defaults[kind], nowMs)
        callers.set(id, known)
      }
      if (Math.abs(nowMs - known.provedAtMs) >= PROVE_MS) prove(known, request, nowMs)
      return known.bucket
    },
  }
}

function digestOf(credential: string): string {
  return hash('sha256', credential, 'base64')
}
