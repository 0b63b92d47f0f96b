import type { Command } from 'commander'
import type { KeyStatus } from '../../crypto/key-status.ts'
import { EXIT, Failure } from '../failure.ts'
import { type Column, note, print, table } from '../output.ts'
import { addVerb } from '../verb.ts'
import { readKeys, rotateMasterKey, withKeys } from './master-key-rotation.ts'

interface JsonOption {
  readonly json?: boolean
}

const COLUMNS: readonly Column<KeyStatus>[] = [
  { title: 'Key', of: ({ keyId }) => keyId || '(none)' },
  { title: 'Role', of: roleOf },
  { title: 'Instances', right: true, of: ({ instances }) => String(instances) },
  {
    title: 'Made with it',
    of: ({ values }) =>
      Object.entries(values)
        .map(([name, count]) => `${count.toLocaleString('en')} in ${name}`)
        .join(', '),
  },
]

/** `inflow master-key` */
export function masterKey(noun: Command): void {
  addVerb(noun, 'rotate', {
    summary:
      'encrypt everything with the current key: MASTER_KEY, or a new one that it makes in DATA_DIR; ' +
      'the service may run meanwhile, and what was ended half-way goes on',
    example: 'master-key rotate',
  })
    .option('--json', 'print one JSON document: {"reEncrypted", "keys": […]}')
    .action(rotate)
  addVerb(noun, 'status', {
    summary: 'show what is encrypted with which key; exit code 1 when any of it is not current',
    example: 'master-key status',
  })
    .option('--json', 'print one JSON document: {"keys": […]}')
    .action(status)
}

async function rotate({ json }: JsonOption): Promise<void> {
  const { reEncrypted, keys, unreadable, unreadableIds } = await rotateMasterKey(process.env)
  if (json) print(JSON.stringify({ reEncrypted, unreadable, keys }, null, 2))
  else print(table(keys, COLUMNS))
  if (unreadable > 0) {
    throw new Failure(
      EXIT.refused,
      `${unreadable} could not be read with any key that is known, and were left alone`,
      unreadableIds,
    )
  }
  refuseLeftOver(keys)
  if (!json) note('Everything is encrypted with the current key.')
}

async function status({ json }: JsonOption): Promise<void> {
  const keys = await withKeys(process.env, readKeys)
  if (json) print(JSON.stringify({ keys }, null, 2))
  else print(table(keys, COLUMNS))
  refuseLeftOver(keys)
}

function roleOf({ keyId, current, known, removable }: KeyStatus): string {
  if (current) return 'current'
  if (keyId === '') return 'to be made anew'
  if (removable) return 'may be removed'
  return known ? 'earlier' : 'NOT KNOWN HERE'
}

/** Says what still needs another key than the current one, and what to do. */
function refuseLeftOver(keys: readonly KeyStatus[]): void {
  const stale = keys.filter(({ current, values }) => !current && Object.keys(values).length > 0)
  if (stale.length > 0) {
    throw new Failure(
      EXIT.refused,
      'some of it is not encrypted with the current key: run `inflow master-key rotate`',
    )
  }
  const busy = keys.filter(({ current, instances }) => !current && instances > 0)
  if (busy.length > 0) {
    const ids = busy.map(({ keyId }) => keyId).join(', ')
    throw new Failure(
      EXIT.refused,
      `instances still encrypt with ${ids}: give them the new MASTER_KEY, and rotate again`,
    )
  }
}
