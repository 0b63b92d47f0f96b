import type { Command } from 'commander'
import type { KeyStatus } from '../../crypto/key-status.ts'
import { confirm, YES } from '../confirm.ts'
import { addEnvFileOption, type EnvFileOption, environmentOf } from '../env-file.ts'
import { EXIT, Failure } from '../failure.ts'
import { type Column, jsonText, note, print, table } from '../output.ts'
import { addVerb } from '../verb.ts'
import { readKeys, rotateMasterKey, withKeys } from './master-key-rotation.ts'

interface Options extends EnvFileOption {
  readonly json?: boolean
  readonly yes?: boolean
}

const COLUMNS: readonly Column<KeyStatus>[] = [
  { title: 'Key', of: ({ keyId }) => keyId || '(none)' },
  { title: 'Role', of: roleOf },
  { title: 'Instances', right: true, of: ({ instances }) => String(instances) },
  {
    title: 'Values',
    of: ({ values }) =>
      Object.entries(values)
        .map(([name, count]) => `${count.toLocaleString('en')} in ${name}`)
        .join(', '),
  },
]

/** `inflow master-key` */
export function masterKey(noun: Command): void {
  const rotateVerb = addVerb(noun, 'rotate', {
    summary:
      're-encrypt everything with the current key: MASTER_KEY, or a new key that it creates in ' +
      'DATA_DIR; safe while the service runs, and resumes after an interruption',
    example: 'master-key rotate',
  })
  addEnvFileOption(rotateVerb)
    .option(...YES)
    .option('--json', 'print one JSON document: {"reEncrypted", "keys": […]}')
    .action(rotate)
  const statusVerb = addVerb(noun, 'status', {
    summary:
      'show how many values each key encrypts; exits with 1 if any key but the current one is used',
    example: 'master-key status',
  })
  addEnvFileOption(statusVerb)
    .option('--json', 'print one JSON document: {"keys": […]}')
    .action(status)
}

async function rotate({ json, yes, ...options }: Options): Promise<void> {
  const { reEncrypted, keys, unreadable, unreadableIds } = await rotateMasterKey(
    environmentOf(options),
    json,
    (folder) => confirm({ yes: yes ?? false }, { word: 'rotate', question: replacing(folder) }),
  )
  if (json) print(jsonText({ reEncrypted, unreadable, keys }, 2))
  else print(table(keys, COLUMNS))
  if (unreadable > 0) {
    throw new Failure(
      EXIT.refused,
      `${unreadable} rows cannot be decrypted with any known key, and were not changed`,
      unreadableIds,
    )
  }
  requireOnlyCurrent(keys)
  if (!json) note('Everything is encrypted with the current key.')
}

function replacing(folder: string): string {
  return (
    `A new master key replaces the one in ${folder}, which is removed once nothing needs it.\n` +
    'Backups of before are read with the old key alone: keep a copy of it apart from them.'
  )
}

async function status({ json, ...options }: Options): Promise<void> {
  const keys = await withKeys(environmentOf(options), readKeys)
  if (json) print(jsonText({ keys }, 2))
  else print(table(keys, COLUMNS))
  requireOnlyCurrent(keys)
}

function roleOf({ keyId, current, known, removable }: KeyStatus): string {
  if (current) return 'current'
  if (keyId === '') return 'to be re-encrypted'
  if (removable) return 'may be removed'
  return known ? 'earlier' : 'UNKNOWN HERE'
}

/** @throws Failure when a key other than the current one is still in use */
function requireOnlyCurrent(keys: readonly KeyStatus[]): void {
  const stale = keys.filter(({ current, values }) => !current && Object.keys(values).length > 0)
  if (stale.length > 0) {
    throw new Failure(
      EXIT.refused,
      'some values are not encrypted with the current key: run `inflow master-key rotate`',
    )
  }
  const busy = keys.filter(({ current, instances }) => !current && instances > 0)
  if (busy.length > 0) {
    const ids = busy.map(({ keyId }) => keyId).join(', ')
    throw new Failure(
      EXIT.refused,
      `instances still encrypt with ${ids}: set their MASTER_KEY to the new key, and rotate again`,
    )
  }
}
