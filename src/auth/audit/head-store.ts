import type { Pool } from 'pg'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { type AuditKeys, EMPTY_LOG, type StoredHead } from './audit-mac.ts'

/** Reads the last entry of the audit log. */
export async function readHead(queryable: Queryable): Promise<StoredHead> {
  const { rows } = await queryable.query<{ number: string; hash: string; mac: Buffer }>(
    "select number, encode(hash, 'hex') as hash, mac from audit_head",
  )
  const [{ number, hash, mac } = { number: 0, hash: '', mac: Buffer.of() }] = rows
  return { number: BigInt(number), hash, mac }
}

/**
 * Authenticates the empty log, before the service appends to it. Call it only with a database that
 * no service has used yet: a log that was emptied later must not be authenticated.
 */
export async function beginAuditLog(pool: Pool, keys: AuditKeys): Promise<void> {
  const sql = "update audit_head set mac = $1 where number = 0 and mac = ''"
  await pool.query(sql, [keys.mac(EMPTY_LOG)])
}
