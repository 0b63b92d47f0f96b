import type { InferEntity } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { sql } from 'kysely'
import { queriesOf } from '../postgres/queries-of.ts'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'
import { type KeyHolderEntity, MasterKeyEntity } from './master-key.entity.ts'

type MasterKey = InferEntity<typeof MasterKeyEntity>

/** The text that is encrypted under each registered key; only the same key decrypts it. */
const KNOWN_TEXT = 'inflow'

const contextOf = (keyId: string) => `master key ${keyId}`

/** Thrown if the configured keys are not the keys with which the database was encrypted. */
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
  const keys = await listMasterKeys(orm)
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

/** Unregisters a key that has not encrypted anything, unless an instance already uses it. */
export async function unregisterMasterKey(orm: MikroORM, { keyId }: Encrypter): Promise<void> {
  await queriesOf<typeof MasterKeyEntity | typeof KeyHolderEntity>(orm.em.fork())
    .deleteFrom('master_key')
    .where('id', '=', keyId)
    .where(({ not, exists, selectFrom }) =>
      not(exists(selectFrom('master_key_holder').select('id').where('currentKeyId', '=', keyId))),
    )
    .execute()
}

/** Returns the registered keys, each of which may encrypt a value in the database. */
export function listMasterKeys(orm: MikroORM): Promise<MasterKey[]> {
  return orm.em.fork().find(MasterKeyEntity, {}, { orderBy: { createdAt: 'asc', id: 'asc' } })
}

/** Inserts a key unless it exists. @returns whether this call inserted it */
export async function insertMasterKey(
  em: EntityManager,
  key: Pick<MasterKey, 'id' | 'knownText'>,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await queriesOf<typeof MasterKeyEntity>(em)
    .insertInto('master_key')
    .values({ ...key, createdAt: sql<Date>`clock_timestamp()` })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
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
