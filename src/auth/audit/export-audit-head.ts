import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { Gauge, type Registry } from 'prom-client'
import { createLoop, type Loop } from '../../core/loop.ts'
import { type AuditKeys, isAuthenticHead } from './audit-mac.ts'
import { readHead } from './head-store.ts'

interface Options {
  readonly pool: Pool
  readonly keys: AuditKeys
  readonly log: Logger
  readonly metrics: Registry
}

const HOUR_MS = 3_600_000

/**
 * Exports the head of the audit log every hour, and at each start: to the log, and as a metric. Kept
 * elsewhere, they show that entries are missing at the end, even if the database was put back to an
 * earlier state as a whole.
 */
export function createAuditExport({ pool, keys, log, metrics }: Options): Loop {
  const entries = new Gauge({
    name: 'inflow_audit_entries',
    help: 'Entries of the audit log when its head was last exported. It never decreases.',
    aggregator: 'max',
    registers: [metrics],
  })
  return createLoop({
    name: 'audit head',
    log,
    everyMs: HOUR_MS,
    async turn() {
      const head = await readHead(pool)
      const line = { number: Number(head.number), hash: head.hash, mac: head.mac.toString('hex') }
      if (!isAuthenticHead(keys, head))
        log.error(line, 'the audit head was changed in the database: run `inflow audit verify`')
      else if (head.number > 0n) log.info(line, 'audit head')
      entries.set(line.number)
      return undefined
    },
  })
}
