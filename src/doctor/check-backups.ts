import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Pool } from 'pg'
import { readArchiver } from '../postgres/backups/archiver.ts'
import { newestBackupMs } from '../postgres/backups/backup.ts'
import { createFindings, type Finding } from './finding.ts'

const HOUR_MS = 3_600_000

/** A daily backup may take its time. */
const AGE_WARN_MS = 26 * HOUR_MS

/** Checks the age of the newest backup of the embedded database. */
export async function checkBackups(
  { dataDir, backupDir }: { readonly dataDir: string; readonly backupDir: string },
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Backups')
  const newestMs = await newestBackupMs(backupDir)
  const advice = 'make one every day: inflow backup create --keep 7'
  if (newestMs === undefined) {
    // PostgreSQL writes this file once, when it creates the database.
    const created = await stat(join(dataDir, 'postgres', 'PG_VERSION')).catch(() => undefined)
    const found = `there is no backup in ${backupDir}`
    if (created !== undefined && nowMs - created.mtimeMs > AGE_WARN_MS) findings.warn(found, advice)
    else findings.ok(found)
    return findings.all
  }
  const hours = Math.max(0, Math.floor((nowMs - newestMs) / HOUR_MS))
  const found = `the newest backup in ${backupDir} is ${hours} hours old`
  if (nowMs - newestMs > AGE_WARN_MS) findings.warn(found, advice)
  else findings.ok(found)
  return findings.all
}

/** Checks whether the server of DATABASE_URL archives its log. */
export async function checkArchiver(pool: Pool): Promise<readonly Finding[]> {
  const findings = createFindings('Backups')
  const archiver = await readArchiver(pool)
  if (archiver === undefined || !archiver.enabled) {
    findings.warn(
      'the server does not archive its log (archive_mode is off), so it cannot be restored to a point in time',
      'archive it and make base backups (Backups in the guide to operations), unless it is backed up in another way',
    )
  } else if (archiver.failing) {
    findings.warn(
      `the server cannot archive its log: ${archiver.lastFailedSegment}, ${archiver.failures} failures`,
      "mend archive_command (see the server's log): the log fills the disk, and a restore ends where it failed",
    )
  } else {
    const { lastArchivedMs } = archiver
    const at = lastArchivedMs === undefined ? 'none yet' : new Date(lastArchivedMs).toISOString()
    findings.ok(`the server archives its log; its last segment: ${at}`)
  }
  return findings.all
}
