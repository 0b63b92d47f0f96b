import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { type Backup, listBackups } from '../../../postgres/backups/backup.ts'
import { localTime } from '../../local-time.ts'
import { type Column, print, table } from '../../output.ts'
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
  { json }: { readonly json?: boolean },
): Promise<void> {
  const backups = await listBackups(folder ?? readSettings(process.env).backupDir).catch(asFailure)
  if (json) print(JSON.stringify({ backups }, null, 2))
  else {
    const text = table(backups, COLUMNS)
    if (text !== '') print(text)
  }
}
