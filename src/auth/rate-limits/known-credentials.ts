import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { growingTo } from '../../core/growing-to.ts'
import type { Runtime } from '../../postgres/runtime.ts'

/** The hashes of valid credentials of one kind: base64 of the SHA-256 of each text. */
export interface CredentialHashes {
  /** The most recently used or issued credentials, the latest first. */
  latest(limit: number): Promise<readonly string[]>
  /** The credentials issued since a time, in milliseconds since the Unix epoch, the latest first. */
  issuedSince(sinceMs: number, limit: number): Promise<readonly string[]>
}

/** A credential with the time at which it was last recorded as authenticated. */
export interface Recorded {
  authenticatedAtMs: number
}

/**
 * The credentials that are probably valid. They are looked up even after many wrong credentials came from the same address.
 * Only digests are kept, so no credential stays in memory for longer than in the credential cache. A known credential may
 * have become invalid: authentication decides.
 */
export interface KnownCredentials {
  has(credential: string): boolean
  record(credential: string, recorded: Recorded): void
  /** Forgets a credential that is no longer valid. */
  forget(credential: string): void
  /** Reads the latest valid credentials from the database, so that they are known after a restart. */
  load(): Promise<void>
  /** Reads the recently issued credentials in the background, at most once a second. */
  refresh(): void
}

interface Options {
  readonly stored: readonly CredentialHashes[]
  /** A credential from the settings, which is always known. */
  readonly fixed: string | undefined
}

/** The most known credentials, about 10 MB; the least recently used ones are forgotten first. */
const KNOWN_MAX = 50_000

/** The most credentials of a kind that one refresh reads. */
const ISSUED_MAX = 1_000

const REFRESH_MS = 1_000

/** How far the clocks of instances may differ, and how long a transaction that issues may take. */
const OVERLAP_MS = 60_000

export function createKnownCredentials(
  { clock, log }: Runtime,
  { stored, fixed }: Options,
): KnownCredentials {
  const known = new LRUCache<string, Recorded>(growingTo(KNOWN_MAX))
  const fixedDigest = fixed === undefined ? undefined : digestOf(fixed)
  let refreshedAtMs = clock.now()
  let refreshing = false
  /** Adds unknown credentials, the latest last, because the least recently added are forgotten first. */
  const add = (digests: readonly string[]): void => {
    for (const digest of digests.toReversed()) {
      if (!known.has(digest)) known.set(digest, { authenticatedAtMs: Number.NEGATIVE_INFINITY })
    }
  }
  const readIssued = async (sinceMs: number): Promise<void> => {
    for (const kind of stored) add(await kind.issuedSince(sinceMs, ISSUED_MAX))
  }
  return {
    has(credential) {
      const digest = digestOf(credential)
      return digest === fixedDigest || known.get(digest) !== undefined
    },
    record: (credential, recorded) => void known.set(digestOf(credential), recorded),
    forget(credential) {
      if (known.size === 0) return
      const digest = digestOf(credential)
      const recorded = known.get(digest)
      // If the credential becomes valid again, its next successful call records it.
      if (recorded !== undefined) recorded.authenticatedAtMs = Number.NEGATIVE_INFINITY
      known.delete(digest)
    },
    async load() {
      const limit = Math.floor(KNOWN_MAX / Math.max(1, stored.length))
      for (const kind of stored) add(await kind.latest(limit))
    },
    refresh() {
      const nowMs = clock.now()
      if (refreshing || Math.abs(nowMs - refreshedAtMs) < REFRESH_MS) return
      const sinceMs = Math.min(refreshedAtMs, nowMs) - OVERLAP_MS
      refreshing = true
      readIssued(sinceMs)
        .then(() => {
          refreshedAtMs = nowMs
        })
        .catch((error: unknown) => log.warn({ err: error }, 'could not read new credentials'))
        .finally(() => {
          refreshing = false
        })
    },
  }
}

function digestOf(credential: string): string {
  return hash('sha256', credential, 'base64')
}
