import { NO_HASH } from './audit-hash.ts'

/**
 * Authenticates the audit log under a key derived from the master key, which the database does not
 * have: the owner of the database can compute hashes again, but no MACs. An Encrypter is one.
 */
export interface AuditKeys {
  /** The MAC of a text under the current key. */
  mac(text: string): Buffer
  /** Whether a MAC is of the text, under any known key. */
  isMacOf(text: string, mac: Uint8Array): boolean
  /** Whether a MAC is under a known key, by the id that it begins with. */
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

/** What the MAC of an entry authenticates: that the service appended it. */
export function entryText(number: bigint, hash: string): string {
  return `audit entry ${number} ${hash}`
}

/** What the MAC of the head authenticates: that no entry follows. Each append replaces it. */
export function headText(number: bigint, hash: string): string {
  return `audit head ${number} ${hash}`
}

/** The head of a log without entries. */
export const EMPTY_LOG = headText(0n, NO_HASH)

/** Whether the service has appended this entry, and none after it. */
export function isAuthenticHead(keys: AuditKeys, { number, hash, mac }: StoredHead): boolean {
  return keys.isMacOf(headText(number, hash), mac)
}
