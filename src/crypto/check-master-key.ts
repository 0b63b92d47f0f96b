import type { Pool } from 'pg'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'
import { deleteUnheldMasterKey, insertMasterKey, listMasterKeys } from './store.ts'

/** What is encrypted to know a key again. */
const KNOWN_TEXT = 'inflow'

const contextOf = (keyId: string) => `master key ${keyId}`

/** The keys are not those that the database was encrypted with. */
export class MasterKeyError extends Error {
  override readonly name = 'MasterKeyError'
}

/**
 * Sees that the keys fit the database: every key that something in it may be made with is known.
 * A database that was not told of any yet is asked for one row of each table.
 *
 * @throws MasterKeyError, in one line
 */
export async function checkMasterKey(
  pool: Pool,
  encrypter: Encrypter,
  tables: readonly EncryptedRows[],
): Promise<void> {
  const keys = await listMasterKeys(pool)
  const unknown = keys.filter((key) => !opens(encrypter, key.id, key.knownText))
  if (keys.length > 0 && unknown.length === keys.length) throw wrongKey()
  if (unknown.length > 0) {
    const ids = unknown.map((key) => key.id).join(', ')
    throw new MasterKeyError(
      `MASTER_KEY_PREVIOUS lacks the key ${ids}, with which some of this database is encrypted: ` +
        'add it, or finish with it (inflow master-key rotate)',
    )
  }
  if (keys.length > 0) return
  for (const table of tables) if ((await table.fits(encrypter)) === false) throw wrongKey()
}

/** Says in the database that the current key is in use. @returns whether nobody had said so */
export function registerMasterKey(pool: Pool, encrypter: Encrypter): Promise<boolean> {
  const id = encrypter.keyId
  return insertMasterKey(pool, { id, knownText: encrypter.seal(KNOWN_TEXT, contextOf(id)) })
}

/** Takes that back, for a key that nothing was made with; unless an instance has it by now. */
export function withdrawMasterKey(pool: Pool, encrypter: Encrypter): Promise<void> {
  return deleteUnheldMasterKey(pool, encrypter.keyId)
}

function opens(encrypter: Encrypter, id: string, knownText: Buffer): boolean {
  if (!encrypter.knownKeyIds.includes(id)) return false
  try {
    return encrypter.open(knownText, contextOf(id)) === KNOWN_TEXT
  } catch {
    return false
  }
}

function wrongKey(): MasterKeyError {
  return new MasterKeyError('MASTER_KEY is not the one that this database was encrypted with')
}
