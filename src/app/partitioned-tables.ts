import type { Config } from '../config/config.ts'
import { eventsPerDay } from '../events/read-log.ts'
import type { PartitionedTable } from '../postgres/partitions/partitioned-table.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { dispatchedUpTo } from '../webhooks/deliveries/backlog.ts'

/** A statement opens every partition that it cannot exclude, so a table has few; retention drops one at a time. */
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
