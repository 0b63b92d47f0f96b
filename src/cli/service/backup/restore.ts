import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { findBackup } from '../../../postgres/backups/backup.ts'
import { restoreBackup } from '../../../postgres/backups/restore-backup.ts'
import { exitOnSignals } from '../../../postgres/embedded/exit-on-signals.ts'
import { localTime } from '../../local-time.ts'
import { jsonText, note, print } from '../../output.ts'
import { commandProgress, formatBytes } from '../../progress.ts'
import { asFailure } from './failures.ts'

interface RestoreOptions {
  readonly dataDir: string
  readonly json?: boolean
}

/** `inflow backup restore` */
export async function restore(folder: string, { dataDir, json }: RestoreOptions): Promise<void> {
  const backup = await findBackup(folder).catch(asFailure)
  const restoreSignals = exitOnSignals()
  const progress = commandProgress(json, formatBytes)
  const onProgress = (bytes: number, total: number) => progress.show('restoring', bytes, total)
  await restoreBackup({ backup, dataDir, onProgress, log: note })
    .catch(asFailure)
    .finally(() => {
      progress.end()
      restoreSignals()
    })
  const { path: restored, endedAt } = backup
  if (json) {
    print(jsonText({ restored, dataDir, endedAt }, 2))
    return
  }
  print(`Restored ${restored} into ${dataDir}`)
  note(`It contains all until ${localTime.format(timestampFromDate(endedAt))}.`)
  if (!existsSync(join(dataDir, 'master.key'))) {
    note(`Before the start: put the master key of that time into ${dataDir}/master.key (mode 600),`)
    note('or set MASTER_KEY. With another key the service does not start.')
  }
  note(
    `Start it with DATA_DIR=${dataDir}: a new epoch of events begins. Then ask the banks for the`,
  )
  note('payments since: see "After a restore" in operations.md.')
}
