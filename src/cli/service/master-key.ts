import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import { encryptedTables } from '../../app/tables.ts'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import { beginAuditLog } from '../../auth/audit/export-audit-head.ts'
import {
  checkMasterKey,
  MasterKeyError,
  registerMasterKey,
  unregisterMasterKey,
} from '../../crypto/check-master-key.ts'
import { createEncrypter, type Encrypter } from '../../crypto/encryption.ts'
import { dropPreviousKeys, readKeyFiles, replaceKeyFile } from '../../crypto/key-files.ts'
import { listInstances } from '../../crypto/key-heartbeat.ts'
import {
  deleteRemovableKeys,
  type KeyStatus,
  listInstancesWithoutKey,
  type ReEncryptionResult,
  readKeyStatus,
  reEncrypt,
} from '../../crypto/key-rotation.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { confirm, YES } from '../confirm.ts'
import { type Column, EXIT, Failure, jsonText, note, print, table } from '../output.ts'
import { commandProgress } from '../progress.ts'
import { addVerbs, local } from '../verb.ts'
import { ENV_FILE, type EnvFileOption, environmentOf, settingsOf } from './config.ts'
import { commandLineActor, withDatabase } from './open-database.ts'

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

const MASTER_KEY_HELP = `
  rotate: re-encrypt everything with the current key: MASTER_KEY, or a new key that it creates in DATA_DIR; safe while the service runs, and resumes after an interruption
  ${ENV_FILE}
  ${YES}
  --json  print one JSON document: {"reEncrypted", "keys": […]}
  Example: master-key rotate

  status: show how many values each key encrypts; exits with 1 if any key but the current one is used
  ${ENV_FILE}
  --json  print one JSON document: {"keys": […]}
  Example: master-key status`

export function masterKey(noun: Command): void {
  addVerbs(noun, MASTER_KEY_HELP, { rotate: local(rotate), status: local(status) })
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

/** @throws Failure if a key other than the current one is still in use */
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

/** How long a running service may take to read the new key from its data folder. */
const KEY_READ_MS = 60_000
const POLL_MS = 500

/** SQLSTATE undefined_table */
const UNDEFINED_TABLE = '42P01'

/** The configured keys, and the database that they encrypt. */
interface Keys {
  readonly database: Database
  readonly encrypter: Encrypter
  /** The folder of the key files; undefined: the keys are in the settings. */
  readonly folder: string | undefined
  /** Whether no service has used the database yet. */
  readonly unused: boolean
}

/** @throws Failure if a setting is invalid, or the keys do not match the database */
async function withKeys<Result>(
  env: NodeJS.ProcessEnv,
  use: (keys: Keys) => Promise<Result>,
): Promise<Result> {
  const { masterKey, masterKeyPrevious, dataDir } = settingsOf(env)
  return withDatabase(env, 'must exist', async (database) => {
    const inFiles = masterKey === undefined
    const ring = inFiles
      ? await readKeyFiles(dataDir, 'must exist')
      : { current: masterKey, others: masterKeyPrevious }
    const encrypter = createEncrypter(ring.current, ring.others)
    let unused: boolean
    try {
      unused = await checkMasterKey(database.orm, encrypter, encryptedTables(database))
    } catch (error) {
      if (error instanceof MasterKeyError) throw new Failure(EXIT.refused, error.message)
      if ((error as { code?: unknown }).code !== UNDEFINED_TABLE) throw error
      throw new Failure(EXIT.refused, 'the schema is not up to date: run `inflow migrate up`')
    }
    return use({ database, encrypter, folder: inFiles ? dataDir : undefined, unused })
  })
}

function readKeys({ database, encrypter }: Keys): Promise<KeyStatus[]> {
  return readKeyStatus(database.orm, encrypter, encryptedTables(database))
}

/**
 * Re-encrypts everything with the current key, and unregisters earlier keys that are no longer
 * needed. If the keys are files, it first creates a new key, unless a rotation was interrupted.
 *
 * @param confirmed called with the folder before its key is replaced; throws unless the operator confirms
 */
function rotateMasterKey(
  env: NodeJS.ProcessEnv,
  json: boolean | undefined,
  confirmed: (folder: string) => Promise<void>,
): Promise<ReEncryptionResult & { readonly keys: readonly KeyStatus[] }> {
  return withKeys(env, async (keys) => {
    const { database, encrypter, folder, unused } = keys
    const { orm, durablePool } = database
    if (folder !== undefined && encrypter.knownKeyIds.length === 1) {
      await confirmed(folder)
      encrypter.use(await replaceKeyFile(folder))
      note(
        `Created the key ${encrypter.keyId}. The previous key is kept until it is no longer needed.`,
      )
    }
    note(`Re-encrypting everything with the key ${encrypter.keyId}.`)
    if (unused) await beginAuditLog(durablePool, encrypter)
    // After this, an instance without the key does not start.
    const registered = await registerMasterKey(orm, encrypter)
    await waitForInstances(keys).catch(async (error: unknown) => {
      // The key has not encrypted anything: instances without it continue to run, and can restart.
      if (registered) await unregisterMasterKey(orm, encrypter)
      throw error
    })
    // The operator, not this command, removes keys that are in the settings, and restarts the instances for that.
    if (folder !== undefined) await waitForWriters(keys)
    await recordRotation(keys)
    const progress = commandProgress(json)
    const result = await reEncrypt(encryptedTables(database), encrypter, ({ table, ...each }) =>
      progress.show(`re-encrypting ${table}`, each.scanned, each.rows),
    ).finally(progress.end)
    const statuses = await readKeys(keys)
    await deleteRemovableKeys(orm, statuses)
    const needed = statuses.filter(({ current, removable }) => !current && !removable)
    if (folder !== undefined && needed.length === 0 && result.unreadable === 0) {
      await dropPreviousKeys(folder)
      return { ...result, keys: statuses.filter(({ current }) => current) }
    }
    return { ...result, keys: statuses }
  })
}

/** Records the beginning of a rotation, so that an interrupted rotation is recorded too. */
function recordRotation({ database, encrypter }: Keys): Promise<void> {
  const { keyId: targetId, knownKeyIds } = encrypter
  return inTransaction(database.durablePool, (client) =>
    appendAudit(client, commandLineActor(encrypter), {
      action: 'master_key.rotate',
      targetId,
      details: { knownKeyIds },
    }),
  )
}

/** Waits until every running instance knows the current key, which it needs to decrypt. */
async function waitForInstances({ database, encrypter, folder }: Keys): Promise<void> {
  const endMs = performance.now() + (folder === undefined ? 0 : KEY_READ_MS)
  let notified = false
  for (;;) {
    const lacking = await listInstancesWithoutKey(database.orm, encrypter)
    if (lacking.length === 0) return
    if (performance.now() > endMs) {
      throw new Failure(
        EXIT.refused,
        `${lacking.length} running instances lack the key ${encrypter.keyId}: nothing was changed`,
        ['add it to their MASTER_KEY_PREVIOUS and restart them; a killed instance counts for 45 s'],
      )
    }
    if (!notified) note('Waiting for the running service to read the key.')
    notified = true
    await wait(POLL_MS)
  }
}

/**
 * How long a value may take from its encryption to the first write of its transaction: a caller waits for another one for up to
 * 20 s, and then for its batch for 12 s, or for a connection and a lock for 35 s.
 */
const WRITTEN_MS = 40_000

/** How long the transactions that are open then may take. */
const COMMITTED_MS = 60_000

/**
 * Waits until everything that was encrypted before the instances read the current key is committed or lost. Otherwise it
 * could be committed after the previous key was removed.
 */
async function waitForWriters({ database: { orm, durablePool } }: Keys): Promise<void> {
  if ((await listInstances(orm)).length > 0) {
    note(`Waiting ${WRITTEN_MS / 1_000} s until the service has written what it encrypted before.`)
    await wait(WRITTEN_MS)
  }
  const { rows: begun } = await durablePool.query<{ xid: string }>(
    'select pg_snapshot_xmax(pg_current_snapshot())::text as xid',
  )
  const endMs = performance.now() + COMMITTED_MS
  for (;;) {
    const { rowCount } = await durablePool.query(
      'select where pg_snapshot_xmin(pg_current_snapshot()) >= $1::xid8',
      [begun[0]?.xid],
    )
    if (rowCount === 1) return
    if (performance.now() > endMs) {
      const text = 'an older transaction is still open in this PostgreSQL cluster'
      throw new Failure(EXIT.refused, text, [
        'find it in pg_stat_activity by backend_xid, end it, and run `inflow master-key rotate` again',
      ])
    }
    await wait(POLL_MS)
  }
}
