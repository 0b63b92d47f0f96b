import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/clock.ts'
import { growingTo } from '../core/growing-to.ts'

/** How long a credential stays cached. A revoked credential is refused within this time. */
const CACHED_MS = 800

/** The most credentials that are cached. */
const CREDENTIALS_MAX = 20_000

/** The result of looking a credential up. */
export interface Found<Value> {
  readonly value: Value
  /** Milliseconds since the Unix epoch; undefined: the credential does not expire. */
  readonly expiresAtMs: number | undefined
}

/**
 * Returns the value of a credential: from the cache if it was found less than a second ago, otherwise from
 * `find`. Concurrent look-ups of one credential share one call of `find`.
 */
interface CredentialCache<Value> {
  (
    credential: string,
    find: () => Promise<Found<Value> | undefined>,
  ): Value | undefined | Promise<Value | undefined>
  /** Removes a credential from the cache. The results of look-ups that are in progress are not cached. */
  forget(credential: string): void
}

interface Cached<Value> {
  readonly value: Value
  readonly startedMs: number
  readonly untilMs: number
}

interface Lookup<Value> {
  result: Promise<Value | undefined>
  readonly startedMs: number
}

/**
 * Caches credentials by their text, so that a request costs one map look-up. Hashing the text for
 * each request would keep it out of this map but protect nothing: an attacker who reads this memory
 * finds the same texts in the requests. The time of a look-up does not reveal a credential either: the map compares texts
 * only if their hashes, seeded per process, are equal. Only valid credentials are cached, and they are purged when they
 * expire from the cache.
 */
export function createCredentialCache<Value>(clock: Clock): CredentialCache<Value> {
  const cache = new LRUCache<string, Cached<Value>>({
    ...growingTo(CREDENTIALS_MAX),
    // lru-cache still returns an entry whose age is exactly the ttl.
    ttl: CACHED_MS - 1,
    ttlAutopurge: true,
    ttlResolution: 0,
    perf: clock,
  })
  const lookups = new Map<string, Lookup<Value>>()

  const lookUp = async (
    credential: string,
    find: () => Promise<Found<Value> | undefined>,
    lookup: Lookup<Value>,
  ): Promise<Value | undefined> => {
    const { startedMs } = lookup
    const found = await find()
    if (found === undefined) return undefined
    const untilMs = found.expiresAtMs ?? Number.POSITIVE_INFINITY
    if (untilMs <= startedMs) return undefined
    // The credential was forgotten during the look-up, or the look-up took too long.
    if (lookups.get(credential) !== lookup) return found.value
    // The time in the cache counts from the start of the look-up, which may not have seen a later revocation.
    cache.set(credential, { value: found.value, startedMs, untilMs }, { start: startedMs })
    return found.value
  }
  const read: CredentialCache<Value> = (credential, find) => {
    const startedMs = clock.now()
    const cached = cache.get(credential)
    if (cached && cached.startedMs <= startedMs && startedMs < cached.untilMs) return cached.value
    const current = lookups.get(credential)
    if (current !== undefined && isRecent(current.startedMs, startedMs)) return current.result
    const lookup: Lookup<Value> = { startedMs, result: Promise.resolve(undefined) }
    lookups.set(credential, lookup)
    lookup.result = lookUp(credential, find, lookup).finally(() => {
      if (lookups.get(credential) === lookup) lookups.delete(credential)
    })
    return lookup.result
  }
  read.forget = (credential) => {
    cache.delete(credential)
    lookups.delete(credential)
  }
  return read
}

/** Whether a time is less than CACHED_MS ago. A time in the future, after the clock was set back, is not recent. */
function isRecent(thenMs: number, nowMs: number): boolean {
  return thenMs <= nowMs && nowMs < thenMs + CACHED_MS
}
