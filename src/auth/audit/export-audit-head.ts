import type { Pool } from 'pg'
import { Gauge } from 'prom-client'
import { HOUR_MS } from '../../core/durations.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { type AuditKeys, EMPTY_LOG, isAuthenticHead, type StoredHead } from './audit-hash.ts'

/**
 * Exports the head of the audit log every hour and at each start, to the log and as a metric. If logs and metrics are kept
 * outside of the database, they show missing entries at the end, even after the whole database was set back to an earlier
 * state.
 */
export function createAuditExport(
  { database: { durablePool }, log, metrics }: Runtime,
  keys: AuditKeys,
): Loop {
  const entries = new Gauge({
    name: 'inflow_audit_entries',
    help: 'Entries of the audit log when its head was last exported. It never decreases.',
    registers: [metrics],
  })
  const invalid = new Gauge({
    name: 'inflow_audit_head_invalid',
    help: 'Whether the head of the audit log did not match its MAC when it was last exported: 1: it was changed in the database.',
    registers: [metrics],
  })
  const exported = new Gauge({
    name: 'inflow_audit_last_export_timestamp_seconds',
    help: 'Time when this instance last exported the head of the audit log; 0: never.',
    registers: [metrics],
  })
  return createLoop({
    name: 'audit head',
    log,
    everyMs: HOUR_MS,
    async turn() {
      const head = await readHead(durablePool)
      const line = { number: Number(head.number), hash: head.hash, mac: head.mac.toString('hex') }
      const isAuthentic = isAuthenticHead(keys, head)
      if (!isAuthentic)
        log.error(line, 'the audit head was changed in the database: run "inflow audit verify"')
      else if (head.number > 0n) log.info(line, 'audit head')
      entries.set(line.number)
      invalid.set(isAuthentic ? 0 : 1)
      exported.setToCurrentTime()
      return undefined
    },
  })
}

/** Reads the last entry of the audit log. */
export async function readHead(queryable: Queryable): Promise<StoredHead> {
  const { rows } = await queryable.query<{ number: string; hash: string; mac: Buffer }>(
    "select number, encode(hash, 'hex') as hash, mac from audit_head",
  )
  const [{ number, hash, mac } = { number: 0, hash: '', mac: Buffer.of() }] = rows
  return { number: BigInt(number), hash, mac }
}

/**
 * Authenticates the empty log before the service appends to it. Call this only for a database that
 * no service has used yet: a log that was emptied later must not be authenticated.
 */
export async function beginAuditLog(pool: Pool, keys: AuditKeys): Promise<void> {
  const sql = "update audit_head set mac = $1 where number = 0 and mac = ''"
  await pool.query(sql, [keys.mac(EMPTY_LOG)])
}
