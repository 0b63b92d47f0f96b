import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { createFindings, type Finding } from './finding.ts'

/** What holds secrets, relative to the data folder. */
const SECRET_FILES = ['credentials.json', 'master.key', 'master.key.previous', 'postgres.password']

const MIB = 1_048_576
const FREE_WARN_BYTES = 2_048 * MIB
const FREE_FAIL_BYTES = 256 * MIB

/** Who may read the data folder, and how much room its disk has. */
export async function checkFolder(dataDir: string): Promise<readonly Finding[]> {
  const findings = createFindings('Data folder')
  const folder = await stat(dataDir).catch(() => undefined)
  if (folder === undefined) {
    findings.ok(`${dataDir} does not exist; the embedded mode makes it at its first start`)
    return findings.all
  }
  if ((folder.mode & 0o022) !== 0) {
    findings.fail(`others may write into ${dataDir}`, `chmod go-w ${dataDir}`)
  }
  const open: string[] = []
  for (const name of SECRET_FILES) {
    const file = await stat(join(dataDir, name)).catch(() => undefined)
    if (file !== undefined && (file.mode & 0o077) !== 0) open.push(join(dataDir, name))
  }
  if (open.length > 0) {
    findings.fail(`others may read ${open.join(', ')}`, `chmod 600 ${open.join(' ')}`)
  } else {
    findings.ok(`nobody else may read the secrets in ${dataDir}`)
  }
  await checkRoom(dataDir, findings)
  return findings.all
}

async function checkRoom(
  dataDir: string,
  findings: ReturnType<typeof createFindings>,
): Promise<void> {
  const { bavail, bsize } = await statfs(dataDir)
  const freeBytes = bavail * bsize
  const found = `${(freeBytes / MIB / 1_024).toFixed(1)} GiB are free on the disk of ${dataDir}`
  const advice = 'make room: a full disk stops the database, and with it every payment'
  if (freeBytes < FREE_FAIL_BYTES) findings.fail(found, advice)
  else if (freeBytes < FREE_WARN_BYTES) findings.warn(found, advice)
  else findings.ok(found)
}
