import type { MikroORM } from '@mikro-orm/postgresql'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'
import { deleteUnusedMasterKey, insertMasterKey, listMasterKeys } from './store.ts'

/** Encrypted under each registered key. Only the same key decrypts it. */
const KNOWN_TEXT = 'inflow'

const contextOf = (keyId: string) => `master key ${keyId}`

/** The configured keys are not the ones that the database was encrypted with. */
export class MasterKeyError extends Error {
  override readonly name = 'MasterKeyError'
}

/**
 * Checks that the encrypter knows every master key that the database may be encrypted with. If no
 * key is registered yet, checks one row of each table instead.
 *
 * @returns whether no key is registered yet: no service has used the database
 * @throws MasterKeyError with a message of one line
 */
export async function checkMasterKey(
  orm: MikroORM,
  encrypter: Encrypter,
  tables: readonly EncryptedRows[],
): Promise<boolean> {
  const keys = await listMasterKeys(orm.em.fork())
  const unknown = keys.filter((key) => !decryptsKnownText(encrypter, key.id, key.knownText))
  if (keys.length > 0 && unknown.length === keys.length) throw wrongKey()
  if (unknown.length > 0) {
    const ids = unknown.map((key) => key.id).join(', ')
    throw new MasterKeyError(
      `MASTER_KEY_PREVIOUS lacks the key ${ids}, which may encrypt part of this database: ` +
        'add it, or finish its rotation with inflow master-key rotate',
    )
  }
  if (keys.length > 0) return false
  for (const table of tables) if ((await table.matchesKeys(encrypter)) === false) throw wrongKey()
  return true
}

/** Registers the current key in the database. @returns whether it was not registered before */
export function registerMasterKey(orm: MikroORM, encrypter: Encrypter): Promise<boolean> {
  const id = encrypter.keyId
  return insertMasterKey(orm.em.fork(), {
    id,
    knownText: encrypter.encrypt(KNOWN_TEXT, contextOf(id)),
  })
}

/** Unregisters a key that has encrypted nothing yet, unless an instance uses it by now. */
export function unregisterMasterKey(orm: MikroORM, encrypter: Encrypter): Promise<void> {
  return deleteUnusedMasterKey(orm.em.fork(), encrypter.keyId)
}

function decryptsKnownText(encrypter: Encrypter, id: string, knownText: Uint8Array): boolean {
  if (!encrypter.knownKeyIds.includes(id)) return false
  try {
    return encrypter.decrypt(knownText, contextOf(id)) === KNOWN_TEXT
  } catch {
    return false
  }
}

function wrongKey(): MasterKeyError {
  return new MasterKeyError('MASTER_KEY is not the one that this database was encrypted with')
}
