import type { Pool } from 'pg'
import { AHEAD_WARN_SECONDS } from '../postgres/partitions/job.ts'
import { secondsAhead } from '../postgres/partitions/next-cut.ts'
import type { PartitionedTable } from '../postgres/partitions/partitioned-table.ts'
import { readTableState } from '../postgres/partitions/partitions.ts'
import { createFindings, type Finding } from './finding.ts'

const HOUR_SECONDS = 3_600

/** Checks that partitions are made ahead of the rows that need them. */
export async function checkPartitions(
  pool: Pool,
  tables: readonly PartitionedTable[],
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Database')
  const late: string[] = []
  for (const table of tables) {
    const ahead = secondsAhead(table, await readTableState(pool, table, nowMs))
    if (ahead >= AHEAD_WARN_SECONDS) continue
    late.push(`${table.table} (${Math.floor(ahead / HOUR_SECONDS)} hours left)`)
  }
  if (late.length === 0) findings.ok('partitions are made ahead')
  else {
    findings.warn(
      `partitions are not made ahead: ${late.join(', ')}`,
      'check that an instance runs, and end transactions that have been open for hours (pg_stat_activity)',
    )
  }
  return findings.all
}
