import type { Pool } from 'pg'
import type { Clock } from '../core/clock.ts'
import { eventsPerDay } from '../events/read-log.ts'
import type { PartitionedTable } from '../postgres/partitions/partitioned-table.ts'
import { dispatchedUpTo } from '../webhooks/deliveries/backlog.ts'

/** The tables that are partitioned by range: see `PartitionedTable`. */
export function partitionedTables(pool: Pool, clock: Clock): readonly PartitionedTable[] {
  const perDay = () => eventsPerDay(pool, clock.now())
  const lastKey = () => dispatchedUpTo(pool)
  return [
    { kind: 'number', table: 'outbox', key: 'seq', perDay },
    { kind: 'number', table: 'event_log', key: 'position', perDay },
    { kind: 'number', table: 'webhook_delivery', key: 'position', perDay, lastKey },
    { kind: 'number', table: 'webhook_attempt', key: 'position', perDay, lastKey },
  ]
}
