import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { createFindings, type Finding } from './finding.ts'

/** The files with secrets, relative to the data folder. */
const SECRET_FILES = ['credentials.json', 'master.key', 'master.key.previous', 'postgres.password']

const MIB = 1_048_576
const FREE_WARN_BYTES = 2_048 * MIB
const FREE_FAIL_BYTES = 256 * MIB

/** Checks the permissions of the data folder, and the free space of its disk. */
export async function checkFolder(dataDir: string): Promise<readonly Finding[]> {
  const findings = createFindings('Data folder')
  const folder = await stat(dataDir).catch(() => undefined)
  if (folder === undefined) {
    findings.ok(`${dataDir} does not exist; the embedded mode creates it at the first start`)
    return findings.all
  }
  if ((folder.mode & 0o022) !== 0) {
    findings.fail(`other users can write to ${dataDir}`, `chmod go-w ${dataDir}`)
  }
  const readable: string[] = []
  for (const name of SECRET_FILES) {
    const file = await stat(join(dataDir, name)).catch(() => undefined)
    if (file !== undefined && (file.mode & 0o077) !== 0) readable.push(join(dataDir, name))
  }
  if (readable.length > 0) {
    findings.fail(`other users can read ${readable.join(', ')}`, `chmod 600 ${readable.join(' ')}`)
  } else {
    findings.ok(`no other user can read the secrets in ${dataDir}`)
  }
  await checkFreeSpace(dataDir, findings)
  return findings.all
}

async function checkFreeSpace(
  dataDir: string,
  findings: ReturnType<typeof createFindings>,
): Promise<void> {
  const { bavail, bsize } = await statfs(dataDir)
  const freeBytes = bavail * bsize
  const found = `${(freeBytes / MIB / 1_024).toFixed(1)} GiB free on the disk of ${dataDir}`
  const advice = 'free some space: a full disk stops the database, and with it all payments'
  if (freeBytes < FREE_FAIL_BYTES) findings.fail(found, advice)
  else if (freeBytes < FREE_WARN_BYTES) findings.warn(found, advice)
  else findings.ok(found)
}
