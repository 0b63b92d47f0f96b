import type { Database } from '../postgres/orm.ts'
import { countOverdue } from '../settlement/overdue.ts'
import { createFindings, type Finding } from './finding.ts'

/** Due settlements complete within seconds; a million payments take minutes. */
const LATE_MS = 3_600_000

/** Checks whether due settlements have completed. */
export async function checkSettlement(
  database: Database,
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Settlement')
  const overdue = await countOverdue(database, nowMs - LATE_MS)
  const advice =
    'check that an instance runs, and its log for settlement errors; then: inflow ledger verify'
  const { balances, settlements, requests } = overdue
  if (balances > 0) {
    findings.warn(
      `${balances} businesses have been due for settlement for more than an hour`,
      advice,
    )
  }
  if (settlements > 0)
    findings.warn(`${settlements} settlements have been running for more than an hour`, advice)
  if (requests > 0) {
    findings.warn(
      `${requests} settlement requests have been in progress for more than an hour`,
      advice,
    )
  }
  if (balances + settlements + requests === 0) findings.ok('no settlement is overdue')
  return findings.all
}
