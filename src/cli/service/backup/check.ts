import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { type VerifiedDatabase, verifyDatabase } from '../../../app/backups/verify-database.ts'
import { ENTITIES } from '../../../app/entities.ts'
import type { Config } from '../../../config/config.ts'
import type { KeyRing } from '../../../crypto/encryption.ts'
import { readKeyFiles } from '../../../crypto/key-files.ts'
import { type Backup, findBackup, PARTS } from '../../../postgres/backups/backup.ts'
import { makePartial, partialName, removePartial } from '../../../postgres/backups/partial.ts'
import { openCopy } from '../../../postgres/backups/restore-backup.ts'
import { exitOnSignals } from '../../../postgres/embedded/exit-on-signals.ts'
import { migrate, SchemaError } from '../../../postgres/migrate.ts'
import { type Database, openDatabase } from '../../../postgres/orm.ts'
import { type EnvFileOption, environmentOf } from '../../env-file.ts'
import { EXIT, Failure } from '../../failure.ts'
import { localTime } from '../../local-time.ts'
import { type Column, fields, jsonText, note, print } from '../../output.ts'
import { commandProgress, formatBytes, type Progress } from '../../progress.ts'
import { withDatabase } from '../open-database.ts'
import { readSettings } from '../read-settings.ts'
import { asFailure } from './failures.ts'

interface CheckOptions extends EnvFileOption {
  readonly scratch?: string
  readonly json?: boolean
}

interface Checked extends VerifiedDatabase {
  /** Of the backup, or the host and name of the database. */
  readonly subject: string
  /** When the backup was complete; undefined for a database. */
  readonly endedAt: Date | undefined
  readonly masterKey: 'given' | 'not given'
}

const timeText = (at: Date | undefined) => (at ? localTime.format(timestampFromDate(at)) : '')

const COLUMNS: readonly Column<Checked>[] = [
  { title: 'Checked', of: ({ subject }) => subject },
  { title: 'Contains all until', of: ({ endedAt }) => timeText(endedAt) },
  { title: 'Latest payment', of: ({ latestPaymentAt }) => timeText(latestPaymentAt) || 'none' },
  {
    title: 'Ledger',
    of: ({ transactions, postings }) => `${transactions} transactions with ${postings} postings`,
  },
  { title: 'Events', of: ({ events, epoch }) => `${events} positions, epoch ${epoch}` },
  { title: 'Audit log', of: ({ auditEntries }) => `${auditEntries} entries` },
  { title: 'Audit head', of: ({ auditHead }) => auditHead },
  { title: 'Master key', of: ({ masterKey }) => masterKey },
]

/** `inflow backup check`: exit code 1 if there is a problem. */
export async function check(
  folder: string | undefined,
  { scratch, json, ...options }: CheckOptions,
): Promise<void> {
  const env = environmentOf(options)
  const config = readSettings(env)
  const progress = commandProgress(json)
  const isDatabase = config.databaseUrl !== undefined && folder === undefined
  const checked = await (isDatabase
    ? checkDatabase(config, env, progress)
    : checkBackup(config, { path: folder ?? config.backupDir, scratch, json }, progress)
  ).finally(progress.end)
  if (json) {
    const { events, auditEntries, ...others } = checked
    const counts = { events: Number(events), auditEntries: Number(auditEntries) }
    print(jsonText({ ...others, ...counts }, 2))
  } else {
    print(fields(checked, COLUMNS))
    for (const problem of checked.problems) print(`Problem: ${problem}`)
  }
  const count = checked.problems.length
  if (count > 0) throw new Failure(EXIT.refused, `${count} problems were found`)
  if (!json) note('Schema, ledger and audit log are sound.')
}

function checkDatabase(
  config: Config,
  env: NodeJS.ProcessEnv,
  progress: Progress,
): Promise<Checked> {
  return withDatabase(env, 'must exist', async (database) => {
    const { host, pathname } = new URL(database.url)
    const found = await verify(database, await keysOf(config, undefined), progress)
    return { ...found, subject: `the database ${host}${pathname}`, endedAt: undefined }
  })
}

interface Subject {
  readonly path: string
  readonly scratch: string | undefined
  readonly json: boolean | undefined
}

/** Restores a copy and verifies it. The copy is removed, whatever happens. */
async function checkBackup(
  config: Config,
  { path, scratch, json }: Subject,
  progress: Progress,
): Promise<Checked> {
  const backup = await findBackup(path).catch(asFailure)
  const parent = scratch ?? dirname(backup.path)
  const restoreSignals = exitOnSignals()
  await mkdir(parent, { recursive: true }).catch(asFailure)
  await removePartial(parent).catch(asFailure)
  const copy = join(parent, partialName())
  // PostgreSQL's user must be able to enter it; what is in it is closed to others.
  const discard = await makePartial(copy, 0o711)
  try {
    const copying = commandProgress(json, formatBytes)
    const server = await openCopy({
      ...{ backup, folder: join(copy, 'postgres'), log: note },
      onProgress: (bytes, total) => copying.show('restoring', bytes, total),
    })
      .catch(asFailure)
      .finally(copying.end)
    try {
      const found = await verifyUrl(server.url, await keysOf(config, backup), progress)
      return { ...found, subject: backup.path, endedAt: backup.endedAt }
    } finally {
      await server.stop()
    }
  } finally {
    await discard()
    restoreSignals()
  }
}

async function verifyUrl(url: string, keys: KeyRing | undefined, progress: Progress) {
  const database = await openDatabase(url, ENTITIES, { connectionsMax: 2 })
  try {
    // As a start with this version does. If it cannot, the verification says why.
    const applied = await migrate(database, { onRetry: note }).catch((error: unknown) => {
      if (error instanceof SchemaError) return []
      throw error
    })
    if (applied.length > 0) note(`Applied ${applied.length} migrations to the copy.`)
    return await verify(database, keys, progress)
  } finally {
    await database.close()
  }
}

async function verify(database: Database, keys: KeyRing | undefined, progress: Progress) {
  const found = await verifyDatabase(database, keys, progress.show)
  const masterKey = keys ? ('given' as const) : ('not given' as const)
  const missing = 'no master key was given, without which a restored service does not start'
  const problems = keys ? found.problems : [...found.problems, missing]
  return { ...found, problems, masterKey }
}

/** The keys of the settings, of the backup itself, or of the data folder. */
async function keysOf(config: Config, backup: Backup | undefined): Promise<KeyRing | undefined> {
  const { masterKey, masterKeyPrevious, dataDir } = config
  if (masterKey !== undefined) return { current: masterKey, others: masterKeyPrevious }
  const folder = backup?.withKeys ? join(backup.path, PARTS.keys) : dataDir
  return readKeyFiles(folder, 'must exist').catch(() => undefined)
}
