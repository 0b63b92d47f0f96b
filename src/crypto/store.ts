import type { InferEntity } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { sql } from 'kysely'
import { queriesOf } from '../postgres/queries-of.ts'
import { KeyHolderEntity, MasterKeyEntity } from './master-key.entity.ts'

type MasterKey = InferEntity<typeof MasterKeyEntity>

/** A running instance. */
export type KeyHolder = Omit<InferEntity<typeof KeyHolderEntity>, 'seenAt' | 'startedAt'>

const NOW = sql<Date>`clock_timestamp()`

export function listMasterKeys(em: EntityManager): Promise<MasterKey[]> {
  return em.find(MasterKeyEntity, {}, { orderBy: { createdAt: 'asc', id: 'asc' } })
}

/** Inserts a key unless it exists. @returns whether this call inserted it */
export async function insertMasterKey(
  em: EntityManager,
  key: Pick<MasterKey, 'id' | 'knownText'>,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await queriesOf<typeof MasterKeyEntity>(em)
    .insertInto('master_key')
    .values({ ...key, createdAt: NOW })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

export async function deleteMasterKey(em: EntityManager, id: string): Promise<void> {
  await em.nativeDelete(MasterKeyEntity, { id })
}

/** Deletes a key unless an instance encrypts with it. */
export async function deleteUnusedMasterKey(em: EntityManager, id: string): Promise<void> {
  await queriesOf<typeof MasterKeyEntity | typeof KeyHolderEntity>(em)
    .deleteFrom('master_key')
    .where('id', '=', id)
    .where(({ not, exists, selectFrom }) =>
      not(exists(selectFrom('master_key_holder').select('id').where('currentKeyId', '=', id))),
    )
    .execute()
}

/** Records that an instance runs, and deletes instances that have not reported for a day. */
export async function upsertHolder(em: EntityManager, holder: KeyHolder): Promise<void> {
  const queries = queriesOf<typeof KeyHolderEntity>(em)
  await queries
    .deleteFrom('master_key_holder')
    .where('seenAt', '<', sql<Date>`clock_timestamp() - interval '1 day'`)
    .execute()
  const row = { ...holder, seenAt: NOW }
  await queries
    .insertInto('master_key_holder')
    .values({ ...row, startedAt: NOW })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute()
}

export async function deleteHolder(em: EntityManager, id: string): Promise<void> {
  await em.nativeDelete(KeyHolderEntity, { id })
}

/** Returns the instances that reported in the last `withinSeconds`. */
export async function listHolders(em: EntityManager, withinSeconds: number): Promise<KeyHolder[]> {
  return queriesOf<typeof KeyHolderEntity>(em)
    .selectFrom('master_key_holder')
    .select(['id', 'currentKeyId', 'knownKeyIds', 'version', 'migration', 'process'])
    .where('seenAt', '>', sql<Date>`clock_timestamp() - ${withinSeconds} * interval '1 second'`)
    .orderBy('id')
    .execute()
}
