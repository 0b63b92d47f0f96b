import { defineEntity, p } from '@mikro-orm/core'
import type { Actor } from '../caller.ts'

/**
 * The audit log: append-only, and chained by hashes. A trigger sets number, time and hashes, so
 * that no entry can be inserted outside the chain: see the migration.
 */
export const AuditEntryEntity = defineEntity({
  name: 'AuditEntry',
  tableName: 'audit_entry',
  properties: {
    /** 1, 2, 3 … */
    number: p.bigint().primary().autoincrement(false),
    at: p.datetime(3),
    actorKind: p.text().$type<Actor['kind']>(),
    actorId: p.text(),
    actorName: p.text(),
    address: p.text(),
    requestId: p.text(),
    action: p.text(),
    targetKind: p.text(),
    targetId: p.text(),
    businessId: p.text().nullable(),
    /** A JSON object, as text: the hash covers these exact characters. */
    details: p.text(),
    previousHash: p.blob(),
    hash: p.blob(),
  },
  indexes: [
    { properties: ['businessId', 'number'] },
    { properties: ['actorId', 'number'] },
    { properties: ['targetId', 'number'] },
    { properties: ['action', 'number'] },
  ],
  checks: [
    {
      name: 'audit_entry_actor_kind',
      expression: "actor_kind in ('token', 'secret_key', 'bootstrap', 'system', 'command_line')",
    },
    { name: 'audit_entry_business_id', expression: "business_id <> ''" },
    { name: 'audit_entry_details', expression: 'octet_length(details) <= 4096' },
  ],
})

/** The MAC of an entry. A rotation of the master key replaces it, so it has a table of its own. */
export const AuditMacEntity = defineEntity({
  name: 'AuditMac',
  tableName: 'audit_mac',
  properties: {
    number: p.bigint().primary().autoincrement(false),
    mac: p.blob(),
  },
})

/** One row: the last entry of the audit log. Its row lock serializes appends. */
export const AuditHeadEntity = defineEntity({
  name: 'AuditHead',
  tableName: 'audit_head',
  properties: {
    id: p.integer().primary().autoincrement(false),
    number: p.bigint(),
    hash: p.blob(),
    /** Empty: the service has never started. */
    mac: p.blob(),
  },
  checks: [{ name: 'audit_head_one_row', expression: 'id = 1' }],
})
