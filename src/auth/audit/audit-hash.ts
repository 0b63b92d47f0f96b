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
  /** Empty: none, or all. */
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
