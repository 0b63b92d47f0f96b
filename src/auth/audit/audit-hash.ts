import { createHash } from 'node:crypto'

/** The hashed fields of an audit entry, including the hash of the previous entry. */
export interface HashedEntry {
  readonly number: bigint
  /** Milliseconds since the Unix epoch. */
  readonly atMs: number
  readonly actorKind: string
  readonly actorId: string
  readonly actorName: string
  readonly address: string
  readonly requestId: string
  readonly action: string
  readonly targetKind: string
  readonly targetId: string
  /** Empty: the change concerns no business, or all. */
  readonly businessId: string
  readonly details: string
  /** 64 hexadecimal digits. */
  readonly previousHash: string
}

/** An entry of the audit log, with its hash: 64 hexadecimal digits. */
export interface AuditEntry extends HashedEntry {
  readonly hash: string
  /** Whether its MAC proves that the service appended exactly this entry. */
  readonly authentic: boolean
}

/** The previous hash of the first entry. */
export const NO_HASH = '0'.repeat(64)

/**
 * Computes the hash of an entry: SHA-256 of its fields in order, each as its length in bytes, ":",
 * its text and ",". The database computes the same on insert (`audit_hash` in the migrations).
 *
 * @returns 64 hexadecimal digits
 */
export function auditHash(entry: HashedEntry): string {
  const fields = [
    'inflow-audit-1',
    `${entry.number}`,
    `${entry.atMs}`,
    entry.actorKind,
    entry.actorId,
    entry.actorName,
    entry.address,
    entry.requestId,
    entry.action,
    entry.targetKind,
    entry.targetId,
    entry.businessId,
    entry.details,
    entry.previousHash,
  ]
  const hash = createHash('sha256')
  for (const text of fields) hash.update(`${Buffer.byteLength(text)}:${text},`)
  return hash.digest('hex')
}

/**
 * Authenticates the audit log under a key derived from the master key. The owner of the database can compute hashes, but
 * no MACs, because the database does not have the key. An Encrypter implements this interface.
 */
export interface AuditKeys {
  /** The MAC of a text under the current key. */
  mac(text: string): Buffer
  /** Whether a MAC matches the text under any known key. */
  isMacOf(text: string, mac: Uint8Array): boolean
  /** Whether the key of a MAC is known; a MAC begins with the id of its key. */
  knowsKeyOf(mac: Uint8Array): boolean
}

/** The last entry of the audit log, as the database states it. */
export interface StoredHead {
  /** 0: the log is empty. */
  readonly number: bigint
  /** 64 hexadecimal digits. */
  readonly hash: string
  /** Empty: the service has never started. */
  readonly mac: Buffer
}

/** The text under the MAC of an entry, which proves that the service appended the entry. */
export function entryText(number: bigint, hash: string): string {
  return `audit entry ${number} ${hash}`
}

/** The text under the MAC of the head, which proves that no entry follows. Each append replaces the MAC. */
export function headText(number: bigint, hash: string): string {
  return `audit head ${number} ${hash}`
}

/** The text under the MAC of an empty log. */
export const EMPTY_LOG = headText(0n, NO_HASH)

/** Whether the service appended this entry, and no entry after it. */
export function isAuthenticHead(keys: AuditKeys, { number, hash, mac }: StoredHead): boolean {
  return keys.isMacOf(headText(number, hash), mac)
}

/** The first entry of the audit log that is not intact. */
export interface ChainBreak {
  readonly number: bigint
  /** The fault, as a predicate of "entry 5". */
  readonly why: string
}

/** The last entry of a log, and whether the MAC of the head is valid. */
interface ChainHead {
  readonly number: bigint
  readonly hash: string
  readonly authentic: boolean
}

/** Verifies the hash chain and the MACs of the audit log, from its first entry or from an entry known to be intact. */
export interface Chain {
  /** Verifies the next entry. @returns the fault of this entry or of the gap before it; undefined: it is intact */
  follow(entry: AuditEntry): ChainBreak | undefined
  /** Compares the last verified entry with the head that the service reports. */
  end(head: ChainHead): ChainBreak | undefined
  /** The number of the last intact entry. */
  readonly number: bigint
  readonly hash: string
}

/** @param start the last entry that is known to be intact; absent: begins with the first */
export function createChain(start = { number: 0n, hash: NO_HASH }): Chain {
  let { number, hash } = start
  return {
    follow(entry) {
      const next = number + 1n
      if (entry.number !== next) return { number: next, why: 'is missing' }
      if (entry.hash !== auditHash(entry)) {
        return { number: next, why: 'was changed: its hash does not match its content' }
      }
      if (entry.previousHash !== hash) {
        return { number: next, why: 'does not follow the previous entry: one of them was changed' }
      }
      if (!entry.authentic) {
        return { number: next, why: 'was not appended by the service: its MAC is missing or wrong' }
      }
      number = next
      hash = entry.hash
      return undefined
    },
    end(head) {
      if (head.number > number) return { number: number + 1n, why: 'is missing' }
      if (head.number === number && head.hash === hash && head.authentic) return undefined
      return { number, why: 'is not the last entry that was appended' }
    },
    get number() {
      return number
    },
    get hash() {
      return hash
    },
  }
}
