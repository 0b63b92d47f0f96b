import { type Command, InvalidArgumentError } from 'commander'
import { addEnvFileOption } from '../../env-file.ts'
import { addVerb } from '../../verb.ts'
import { check } from './check.ts'
import { create } from './create.ts'
import { list } from './list.ts'
import { restore } from './restore.ts'

/** `inflow backup` */
export function backup(noun: Command): void {
  const createVerb = addVerb(noun, 'create', {
    summary:
      'copy the embedded database into a new backup, also while the service runs; without the master ' +
      'key, which a restore needs',
    example: 'backup create --to /mnt/backups --keep 7',
  })
  addEnvFileOption(createVerb)
    .option('--to <folder>', 'the folder of backups (default: BACKUP_DIR)')
    .option('--keep <count>', 'then remove the oldest, and keep this many', count)
    .option(
      '--with-keys',
      'copy the master keys of DATA_DIR too: who has the backup reads everything',
    )
    .option(
      '--json',
      'print one JSON document: {"path", "startedAt", "endedAt", "bytes", "removed"}',
    )
    .action(create)
  const listVerb = addVerb(noun, 'list', {
    summary: 'list backups, the oldest first',
    example: 'backup list',
  })
  addEnvFileOption(listVerb)
    .argument('[folder]', 'the folder of backups (default: BACKUP_DIR)')
    .option('--json', 'print one JSON document: {"backups": […]}')
    .action(list)
  const checkVerb = addVerb(noun, 'check', {
    summary:
      'restore a backup into a scratch folder, and verify schema, master key, ledger and audit log ' +
      'there; with DATABASE_URL and without a folder: verify that database',
    example: 'backup check',
  })
  addEnvFileOption(checkVerb)
    .argument(
      '[folder]',
      'a backup, or a folder of which the newest is taken (default: BACKUP_DIR)',
    )
    .option(
      '--scratch <folder>',
      'the folder of the copy, which is removed (default: beside the backup)',
    )
    .option('--json', 'print one JSON document: {"latestPaymentAt", "epoch", "problems", …}')
    .action(check)
  addVerb(noun, 'restore', {
    summary: 'restore a backup into a new data folder, for a service to start there',
    example: 'backup restore /mnt/backups --data-dir /var/lib/inflow',
  })
    .argument('<folder>', 'a backup, or a folder of which the newest is taken')
    .requiredOption('--data-dir <folder>', 'the new DATA_DIR, which has no database')
    .option('--json', 'print one JSON document: {"restored", "dataDir", "endedAt"}')
    .action(restore)
}

function count(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new InvalidArgumentError('Must be 1 to 9999.')
  return Number(text)
}
