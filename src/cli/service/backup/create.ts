import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { keyFilesOf } from '../../../crypto/key-files.ts'
import type { Backup } from '../../../postgres/backups/backup.ts'
import { createBackup } from '../../../postgres/backups/create-backup.ts'
import { keepNewest } from '../../../postgres/backups/partial.ts'
import { exitOnSignals } from '../../../postgres/embedded/exit-on-signals.ts'
import { type EnvFileOption, environmentOf } from '../../env-file.ts'
import { EXIT, Failure } from '../../failure.ts'
import { jsonText, note, print } from '../../output.ts'
import { commandProgress, formatBytes } from '../../progress.ts'
import { withEmbedded } from '../open-database.ts'
import { readSettings } from '../read-settings.ts'
import { asFailure } from './failures.ts'

interface CreateOptions extends EnvFileOption {
  readonly to?: string
  readonly keep?: number
  readonly withKeys?: boolean
  readonly json?: boolean
}

/** `inflow backup create` */
export async function create(options: CreateOptions): Promise<void> {
  const { to, keep, withKeys = false, json } = options
  const { databaseUrl, dataDir, backupDir, masterKey } = readSettings(environmentOf(options))
  if (databaseUrl !== undefined) {
    throw new Failure(
      EXIT.usage,
      'DATABASE_URL is set: back up that server with its own tools, pg_basebackup or pgBackRest',
    )
  }
  if (withKeys && masterKey !== undefined) {
    throw new Failure(EXIT.usage, 'MASTER_KEY is a setting, so DATA_DIR has no key to copy')
  }
  const folder = to ?? backupDir
  const keyFiles = withKeys ? keyFilesOf(dataDir).filter((file) => existsSync(file)) : []
  const restoreSignals = exitOnSignals()
  const progress = commandProgress(json, formatBytes)
  const backup = await withEmbedded(dataDir, 'must exist', (url) =>
    createBackup({
      ...{ url, folder, keyFiles, now: () => new Date() },
      passwordFile: join(dataDir, 'postgres.password'),
      onProgress: (bytes, total) => progress.show('copying', bytes, total),
    }),
  )
    .catch(asFailure)
    .finally(() => {
      progress.end()
      restoreSignals()
    })
  const removed = keep === undefined ? [] : await keepNewest(folder, keep).catch(asFailure)
  if (json) {
    const { path, startedAt, endedAt, bytes } = backup
    const paths = removed.map((each) => each.path)
    print(jsonText({ path, startedAt, endedAt, bytes, withKeys, removed: paths }, 2))
    return
  }
  print(backup.path)
  report(backup, removed.length)
}

function report({ bytes, withKeys }: Backup, removed: number): void {
  note(`Copied ${formatBytes(bytes)}. Check it: inflow backup check`)
  if (removed > 0) note(`Removed ${removed} older backups.`)
  note(
    withKeys
      ? 'It has the master key: who can read it can read everything.'
      : 'It has no master key: keep master.key (or MASTER_KEY) elsewhere, a restore needs it.',
  )
}
