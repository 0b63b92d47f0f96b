import { epochMs } from './epoch-ms.ts'
import type { Queryable } from './in-transaction.ts'

/** How a server archives its log, by `archive_mode` and `pg_stat_archiver`, which every role may read. */
interface Archiver {
  readonly enabled: boolean
  /** Whether the latest attempt failed. */
  readonly failing: boolean
  readonly failures: number
  readonly lastFailedSegment: string | undefined
  readonly lastArchivedMs: number | undefined
}

export async function readArchiver(pool: Queryable): Promise<Archiver | undefined> {
  const { rows } = await pool.query<{
    enabled: boolean
    failing: boolean
    failures: string
    last_failed_wal: string | null
    last_archived_ms: number | null
  }>(
    `select current_setting('archive_mode') <> 'off' as enabled, failed_count as failures,
      last_failed_time is not null
        and (last_archived_time is null or last_failed_time > last_archived_time) as failing,
      last_failed_wal, ${epochMs('last_archived_time')} as last_archived_ms
      from pg_stat_archiver`,
  )
  const [row] = rows
  return (
    row && {
      enabled: row.enabled,
      failing: row.enabled && row.failing,
      failures: Number(row.failures),
      lastFailedSegment: row.last_failed_wal ?? undefined,
      lastArchivedMs: row.last_archived_ms ?? undefined,
    }
  )
}
