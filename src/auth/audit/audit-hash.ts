import { createHash } from 'node:crypto'

/** What an entry of the audit log says, and the hash of the one before it. */
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

/** What stands for the hash before the first entry. */
export const NO_HASH = '0'.repeat(64)

/**
 * The hash of an entry: SHA-256 of its fields in order, each as its length in bytes, ":", its text
 * and ",". The database computes the same when it appends (`audit_hash` in the migrations).
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
