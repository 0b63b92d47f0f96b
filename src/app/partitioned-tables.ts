import type { Pool } from 'pg'
import type { Clock } from '../core/clock.ts'
import { eventsPerDay } from '../events/read-log.ts'
import type { PartitionedTable } from '../postgres/partitions/partitioned-table.ts'

/** The tables that are partitioned by range: see `PartitionedTable`. */
export function partitionedTables(pool: Pool, clock: Clock): readonly PartitionedTable[] {
  const perDay = () => eventsPerDay(pool, clock.now())
  return [
    { kind: 'number', table: 'outbox', key: 'seq', perDay },
    { kind: 'number', table: 'event_log', key: 'position', perDay },
    { kind: 'month', table: 'transaction', key: 'id', prefix: 'txn' },
    { kind: 'month', table: 'ledger_posting', key: 'transaction_id', prefix: 'txn' },
  ]
}
