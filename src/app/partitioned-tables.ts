import type { Pool } from 'pg'
import type { Config } from '../config/config.ts'
import type { Clock } from '../core/clock.ts'
import { eventsPerDay } from '../events/read-log.ts'
import type { PartitionedTable } from '../postgres/partitions/partitioned-table.ts'

/** A statement opens every partition that it cannot exclude, so a table has few; retention drops one at a time. */
const PARTITIONS_KEPT = 30

/** The tables that are partitioned by range: see `PartitionedTable`. */
export function partitionedTables(
  pool: Pool,
  clock: Clock,
  { eventRetentionDays }: Pick<Config, 'eventRetentionDays'>,
): readonly PartitionedTable[] {
  const perDay = () => eventsPerDay(pool, clock.now())
  const days = Math.ceil(eventRetentionDays / PARTITIONS_KEPT)
  return [
    { kind: 'number', table: 'outbox', key: 'seq', perDay, days },
    { kind: 'number', table: 'event_log', key: 'position', perDay, days },
  ]
}
