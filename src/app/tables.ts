import { encryptedAccounts } from '../accounts/re-encrypt-accounts.ts'
import { authenticatedAudit } from '../auth/audit/re-mac-audit.ts'
import type { Config } from '../config/config.ts'
import { type EncryptedRows, encryptedColumn } from '../crypto/encrypted-rows.ts'
import { eventsPerDay } from '../events/read-log.ts'
import { NOTIFICATION_COLUMN } from '../notifications/raw-notification.ts'
import type { Database } from '../postgres/orm.ts'
import type { PartitionedTable } from '../postgres/partitions.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { CONNECTION_COLUMN } from '../webhooks/connections/connection.ts'
import { dispatchedUpTo } from '../webhooks/deliveries/backlog.ts'
import { SECRET_COLUMN } from '../webhooks/sender/sign.ts'

/** All rows that depend on the master key; a rotation of the master key re-encrypts them. */
export function encryptedTables(database: Database): readonly EncryptedRows[] {
  const { durablePool } = database
  return [
    encryptedAccounts(database),
    encryptedColumn(durablePool, SECRET_COLUMN),
    encryptedColumn(durablePool, CONNECTION_COLUMN),
    encryptedColumn(durablePool, NOTIFICATION_COLUMN),
    authenticatedAudit(durablePool),
  ]
}

/** A table has few partitions, because a statement opens every partition that it cannot exclude. */
const PARTITIONS_KEPT = 30

/** The tables that are partitioned by range: see `PartitionedTable`. */
export function partitionedTables(
  { database: { durablePool }, clock }: Pick<Runtime, 'database' | 'clock'>,
  {
    eventRetentionDays,
    deliveryRetentionDays,
  }: Pick<Config, 'eventRetentionDays' | 'deliveryRetentionDays'>,
): readonly PartitionedTable[] {
  const perDay = () => eventsPerDay(durablePool, clock.now())
  const lastKey = () => dispatchedUpTo(durablePool)
  const days = Math.ceil(eventRetentionDays / PARTITIONS_KEPT)
  const sent = { perDay, lastKey, days: Math.ceil(deliveryRetentionDays / PARTITIONS_KEPT) }
  return [
    { kind: 'number', table: 'outbox', key: 'seq', perDay, days },
    { kind: 'number', table: 'event_log', key: 'position', perDay, days },
    { kind: 'number', table: 'webhook_delivery', key: 'position', ...sent },
    { kind: 'number', table: 'webhook_attempt', key: 'position', ...sent },
    { kind: 'time', table: 'transaction', key: 'id', prefix: 'txn', perDay },
    { kind: 'time', table: 'ledger_posting', key: 'transaction_id', prefix: 'txn', perDay },
  ]
}
