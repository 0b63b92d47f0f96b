import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { type Backup, listBackups } from '../../../postgres/backups/backup.ts'
import { type EnvFileOption, environmentOf } from '../../env-file.ts'
import { localTime } from '../../local-time.ts'
import { type Column, jsonText, print, table } from '../../output.ts'
import { formatBytes } from '../../progress.ts'
import { readSettings } from '../read-settings.ts'
import { asFailure } from './failures.ts'

const COLUMNS: readonly Column<Backup>[] = [
  {
    title: 'Contains all until',
    of: ({ endedAt }) => localTime.format(timestampFromDate(endedAt)),
  },
  { title: 'Size', right: true, of: ({ bytes }) => formatBytes(bytes) },
  { title: 'PostgreSQL', of: ({ serverVersion }) => serverVersion },
  { title: 'Keys', of: ({ withKeys }) => (withKeys ? 'yes' : 'no') },
  { title: 'Backup', of: ({ path }) => path },
]

/** `inflow backup list` */
export async function list(
  folder: string | undefined,
  { json, ...options }: EnvFileOption & { readonly json?: boolean },
): Promise<void> {
  const own = folder ?? readSettings(environmentOf(options)).backupDir
  const backups = await listBackups(own).catch(asFailure)
  if (json) print(jsonText({ backups }, 2))
  else {
    const text = table(backups, COLUMNS)
    if (text !== '') print(text)
  }
}
