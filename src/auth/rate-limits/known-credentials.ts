import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Runtime } from '../../postgres/runtime.ts'

/** The hashes of valid credentials of one kind: base64 of the SHA-256 of each text. */
export interface CredentialHashes {
  /** The credentials that were used or issued last, the latest first. */
  latest(limit: number): Promise<readonly string[]>
  /** The credentials issued since a time, in milliseconds since the Unix epoch, the latest first. */
  issuedSince(sinceMs: number, limit: number): Promise<readonly string[]>
}

/** When a credential was last recorded as authenticated. */
export interface Recorded {
  authenticatedAtMs: number
}

/**
 * The credentials that are likely to be right, so that they are looked up whatever wrong ones come
 * from the same address. They are kept as digests: no credential stays in memory for longer than in
 * the credential cache. Recognising one proves only that it was valid; authentication decides.
 */
export interface KnownCredentials {
  has(credential: string): boolean
  record(credential: string, recorded: Recorded): void
  /** Forgets a credential that is no longer valid. */
  forget(credential: string): void
  /** Reads what the database knows, so that a restart forgets none. */
  load(): Promise<void>
  /** Reads in the background which credentials were issued lately, at most once a second. */
  refresh(): void
}

interface Options {
  readonly stored: readonly CredentialHashes[]
  /** A credential of the settings, which is always known. */
  readonly fixed: string | undefined
}

/** About 10 MB when full; beyond it, those unused for longest are forgotten. */
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
  // It grows with its entries: `max` would allocate all places at the start.
  const known = new LRUCache<string, Recorded>({ maxSize: KNOWN_MAX, sizeCalculation: () => 1 })
  const fixedDigest = fixed === undefined ? undefined : digestOf(fixed)
  let refreshedAtMs = clock.now()
  let refreshing = false
  /** Adds unknown credentials, the latest last, as the least recent are forgotten first. */
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
      // If it becomes valid again, its next successful call records it again.
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
