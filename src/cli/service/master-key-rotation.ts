import { setTimeout as wait } from 'node:timers/promises'
import { encryptedTables } from '../../app/encrypted-tables.ts'
import { type Config, ConfigError, readConfig } from '../../config/config.ts'
import {
  checkMasterKey,
  MasterKeyError,
  registerMasterKey,
  withdrawMasterKey,
} from '../../crypto/check-master-key.ts'
import { createEncrypter, type Encrypter } from '../../crypto/encryption.ts'
import { dropPreviousKeys, readKeyFiles, replaceKeyFile } from '../../crypto/key-files.ts'
import { forgetKeys, type KeyStatus, listIgnorant, readKeyStatus } from '../../crypto/key-status.ts'
import { type Progress, type ReEncryptionResult, reEncrypt } from '../../crypto/re-encrypt.ts'
import type { Database } from '../../postgres/orm.ts'
import { EXIT, Failure } from '../failure.ts'
import { note } from '../output.ts'
import { withDatabase } from './open-database.ts'

/** How long a running service has to find the new key in its data folder. */
const TAKE_UP_MS = 60_000
const POLL_MS = 500

/** SQLSTATE undefined_table */
const UNDEFINED_TABLE = '42P01'

/** Progress is told at most this often. */
const TELL_EVERY_MS = 1_000

/** The keys at hand, and the database that they are for. */
interface Keys {
  readonly database: Database
  readonly encrypter: Encrypter
  /** The folder that the keys are in; undefined: they are settings. */
  readonly folder: string | undefined
}

/** @throws Failure on a wrong setting, or keys that are not those of the database */
export async function withKeys<Result>(
  env: NodeJS.ProcessEnv,
  use: (keys: Keys) => Promise<Result>,
): Promise<Result> {
  const { masterKey, masterKeyPrevious, dataDir } = settings(env)
  return withDatabase(env, 'must exist', async (database) => {
    const inFiles = masterKey === undefined
    const ring = inFiles
      ? await readKeyFiles(dataDir, 'must exist')
      : { current: masterKey, others: masterKeyPrevious }
    const encrypter = createEncrypter(ring.current, ring.others)
    try {
      await checkMasterKey(database.pool, encrypter, encryptedTables(database.pool))
    } catch (error) {
      if (error instanceof MasterKeyError) throw new Failure(EXIT.refused, error.message)
      if ((error as { code?: unknown }).code !== UNDEFINED_TABLE) throw error
      throw new Failure(EXIT.refused, 'the schema is not up to date: run `inflow migrate up`')
    }
    return use({ database, encrypter, folder: inFiles ? dataDir : undefined })
  })
}

export function readKeys({ database, encrypter }: Keys): Promise<KeyStatus[]> {
  return readKeyStatus(database.pool, encrypter, encryptedTables(database.pool))
}

/**
 * Makes everything anew with the current key, and forgets the earlier ones as soon as nothing needs
 * them. Where the keys are files, a new one is made first, unless a rotation was left half-way.
 */
export function rotateMasterKey(
  env: NodeJS.ProcessEnv,
): Promise<ReEncryptionResult & { readonly keys: readonly KeyStatus[] }> {
  return withKeys(env, async (keys) => {
    const { database, encrypter, folder } = keys
    const { pool } = database
    if (folder !== undefined && encrypter.knownKeyIds.length === 1) {
      encrypter.use(await replaceKeyFile(folder))
      note(`Made a new key, ${encrypter.keyId}. The one before it is kept until nothing needs it.`)
    }
    note(`Encrypting everything with the key ${encrypter.keyId}.`)
    // From now on no instance starts that lacks the key.
    const first = await registerMasterKey(pool, encrypter)
    await awaitKnown(keys).catch(async (error: unknown) => {
      // Nothing was made with it: the instances that lack it go on as before, and may start again.
      if (first) await withdrawMasterKey(pool, encrypter)
      throw error
    })
    const done = await reEncrypt(encryptedTables(pool), encrypter, teller())
    const statuses = await readKeys(keys)
    await forgetKeys(pool, statuses)
    const left = statuses.filter(({ current, removable }) => !current && !removable)
    if (folder !== undefined && left.length === 0 && done.unreadable === 0) {
      await dropPreviousKeys(folder)
      return { ...done, keys: statuses.filter(({ current }) => current) }
    }
    return { ...done, keys: statuses }
  })
}

/** Waits until every running instance knows the current key: it could not open what is made anew. */
async function awaitKnown({ database, encrypter, folder }: Keys): Promise<void> {
  const endMs = performance.now() + (folder === undefined ? 0 : TAKE_UP_MS)
  let told = false
  for (;;) {
    const ignorant = await listIgnorant(database.pool, encrypter)
    if (ignorant.length === 0) return
    if (performance.now() > endMs) {
      throw new Failure(
        EXIT.refused,
        `${ignorant.length} of the running instances lack the key ${encrypter.keyId}: nothing was changed`,
        [
          'add it to their MASTER_KEY_PREVIOUS and restart them; one that was killed counts for 45 s',
        ],
      )
    }
    if (!told) note('Waiting for the running service to take the key up.')
    told = true
    await wait(POLL_MS)
  }
}

function teller(): (progress: Progress) => void {
  let tellAtMs = performance.now() + TELL_EVERY_MS
  return ({ table, looked, reEncrypted }) => {
    if (performance.now() < tellAtMs) return
    tellAtMs = performance.now() + TELL_EVERY_MS
    const counts = [looked, reEncrypted].map((count) => count.toLocaleString('en'))
    note(`${table}: ${counts[0]} looked at, ${counts[1]} encrypted anew`)
  }
}

function settings(env: NodeJS.ProcessEnv): Config {
  try {
    return readConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const [first = '', ...others] = error.faults
    throw new Failure(EXIT.usage, first, others)
  }
}
