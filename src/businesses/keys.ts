import { wrap } from '@mikro-orm/core'
import type { Clock } from '../clock.ts'
import { Fault } from '../errors.ts'
import { newId } from '../ids.ts'
import type { Database } from '../store/orm.ts'
import { getBusiness } from './get-business.ts'
import { type Key, KeyEntity } from './key.entity.ts'
import { newSecretKey } from './secret-key.ts'

/** How many keys one list holds. */
const KEYS_MAX = 1_000

/**
 * Issues one more key of a business.
 *
 * @throws Fault not_found when there is no such business
 */
export async function issueKey(
  database: Database,
  clock: Clock,
  businessId: string,
  expiresAt: Date | undefined,
): Promise<{ readonly key: Key; readonly secretKey: string }> {
  await getBusiness(database, businessId)
  const now = clock.now()
  const id = newId('key', now)
  const { secret, prefix, secretHash } = newSecretKey(id)
  return database.orm.em.fork().transactional(async (em) => {
    const key = em.create(KeyEntity, {
      id,
      business: businessId,
      prefix,
      secretHash,
      createdAt: new Date(now),
      expiresAt: expiresAt ?? null,
    })
    return { key, secretKey: secret }
  })
}

/**
 * Revokes a key. A repeat changes nothing.
 *
 * @throws Fault not_found when there is no such key
 */
export async function revokeKey(database: Database, clock: Clock, keyId: string): Promise<Key> {
  return database.orm.em.fork().transactional(async (em) => {
    const key = await em.findOne(KeyEntity, keyId)
    if (!key) throw new Fault('not_found', 'There is no such key')
    if (!key.revokedAt) wrap(key).assign({ revokedAt: new Date(clock.now()) })
    return key
  })
}

/**
 * The keys of a business, newest first.
 *
 * @throws Fault not_found when there is no such business
 */
export async function listKeys(database: Database, businessId: string): Promise<readonly Key[]> {
  await getBusiness(database, businessId)
  const em = database.orm.em.fork()
  return em.find(KeyEntity, { business: businessId }, { orderBy: { id: 'desc' }, limit: KEYS_MAX })
}
