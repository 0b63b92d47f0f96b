import type { Pool } from 'pg'
import { listDue } from '../settlement/runs/list-due.ts'
import { createFindings, type Finding } from './finding.ts'

/** Due settlements complete within seconds; a million payments take minutes. */
const LATE_MS = 3_600_000

/** Checks whether due settlements have completed. */
export async function checkSettlement(pool: Pool, nowMs: number): Promise<readonly Finding[]> {
  const findings = createFindings('Settlement')
  const lateMs = nowMs - LATE_MS
  const { rows } = await pool.query<{ running: number; requests: number }>(
    `select
      (select count(*)::int from settlement where status = 'RUNNING' and started_at < $1) as running,
      (select count(*)::int from settlement_request
        where completed_at is null and created_at < $1) as requests`,
    [new Date(lateMs)],
  )
  const { running = 0, requests = 0 } = rows[0] ?? {}
  let overdue = 0
  for await (const _due of listDue(pool, lateMs, false)) overdue += 1
  const advice =
    'check that an instance runs, and its log for settlement errors; then: inflow ledger verify'
  if (overdue > 0) {
    findings.warn(
      `${overdue} businesses have been due for settlement for more than an hour`,
      advice,
    )
  }
  if (running > 0)
    findings.warn(`${running} settlements have been running for more than an hour`, advice)
  if (requests > 0) {
    findings.warn(
      `${requests} settlement requests have been in progress for more than an hour`,
      advice,
    )
  }
  if (overdue + running + requests === 0) findings.ok('no settlement is overdue')
  return findings.all
}
