import { LockMode, wrap } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import type { Database } from '../postgres/orm.ts'
import type { Page } from '../postgres/page-token.ts'
import { readAllowedCidrs } from './allowed-addresses.ts'
import { findBusiness, getBusiness } from './get-business.ts'
import { type Key, KeyEntity } from './key.entity.ts'
import { newSecretKey } from './secret-key.ts'

/** What a new key is to be. */
interface NewKey {
  readonly businessId: string
  readonly live: boolean
  /** Ranges of addresses, as an operator writes them; none: from anywhere. */
  readonly allowedCidrs: readonly string[]
  readonly expiresAt: Date | undefined
}

/** A key, and its secret, which cannot be had again. */
export interface IssuedKey {
  readonly key: Key
  readonly secretKey: string
}

/**
 * Issues one more key of a business.
 *
 * @throws Fault not_found (the business), validation_failed (the ranges)
 */
export async function issueKey(
  database: Database,
  clock: Clock,
  wanted: NewKey,
  actor: Actor,
): Promise<IssuedKey> {
  const allowedCidrs = readAllowedCidrs(wanted.allowedCidrs)
  const nowMs = clock.now()
  return database.orm.em.fork().transactional(async (em) => {
    await findBusiness(em, wanted.businessId)
    const issued = addKey(em, { ...wanted, allowedCidrs }, nowMs)
    await appendAudit(em, actor, {
      action: 'key.issue',
      targetId: issued.key.id,
      businessId: wanted.businessId,
      details: factsOf(issued.key),
    })
    return issued
  })
}

/** Adds a key inside a transaction. @param wanted its ranges in their one form */
export function addKey(em: EntityManager, wanted: NewKey, nowMs: number): IssuedKey {
  const id = newId('key', nowMs)
  const { secret, prefix, secretHash } = newSecretKey(id, wanted.live)
  const key = em.create(KeyEntity, {
    id,
    business: wanted.businessId,
    live: wanted.live,
    prefix,
    secretHash,
    createdAt: new Date(nowMs),
    expiresAt: wanted.expiresAt ?? null,
    revokedAt: null,
    allowedCidrs: [...wanted.allowedCidrs],
    lastUsedAt: null,
  })
  return { key, secretKey: secret }
}

/** What the audit log tells of a new key. */
export function factsOf({ prefix, live, expiresAt, allowedCidrs }: Key) {
  return {
    prefix,
    live,
    ...(expiresAt && { expiresAt }),
    ...(allowedCidrs.length > 0 && { allowedCidrs }),
  }
}

/**
 * Changes from where a key works.
 *
 * @param ranges as an operator writes them; empty: from anywhere; undefined: as before
 * @throws Fault validation_failed (the ranges), not_found, key_inactive
 */
export async function updateKey(
  database: Database,
  clock: Clock,
  keyId: string,
  ranges: readonly string[] | undefined,
  actor: Actor,
): Promise<Key> {
  const allowedCidrs = ranges && [...readAllowedCidrs(ranges)]
  return database.orm.em.fork().transactional(async (em) => {
    const key = await lockActiveKey(em, keyId, clock.now())
    if (allowedCidrs === undefined) return key
    wrap(key).assign({ allowedCidrs })
    await appendAudit(em, actor, {
      action: 'key.update',
      targetId: keyId,
      businessId: key.business,
      details: { prefix: key.prefix, allowedCidrs },
    })
    return key
  })
}

/**
 * Revokes a key. A repeat changes nothing.
 *
 * @throws Fault not_found when there is no such key
 */
export async function revokeKey(
  database: Database,
  clock: Clock,
  keyId: string,
  actor: Actor,
): Promise<Key> {
  return database.orm.em.fork().transactional(async (em) => {
    const key = await lockKey(em, keyId)
    if (key.revokedAt) return key
    wrap(key).assign({ revokedAt: new Date(clock.now()) })
    const { business: businessId, prefix } = key
    const details = { prefix }
    await appendAudit(em, actor, { action: 'key.revoke', targetId: keyId, businessId, details })
    return key
  })
}

/** Finds a key that works, and keeps others from changing it. @throws Fault not_found, key_inactive */
export async function lockActiveKey(em: EntityManager, keyId: string, nowMs: number): Promise<Key> {
  const key = await lockKey(em, keyId)
  if (key.revokedAt) throw new Fault('key_inactive', 'The key was revoked')
  if (key.expiresAt && key.expiresAt.getTime() <= nowMs) {
    throw new Fault('key_inactive', 'The key has expired')
  }
  return key
}

async function lockKey(em: EntityManager, keyId: string): Promise<Key> {
  const key = await em.findOne(KeyEntity, keyId, { lockMode: LockMode.PESSIMISTIC_WRITE })
  if (!key) throw new Fault('not_found', 'There is no such key')
  return key
}

/**
 * The keys of a business, newest first; one more than the page holds, when there is one.
 *
 * @throws Fault not_found when there is no such business
 */
export async function listKeys(
  database: Database,
  businessId: string,
  page: Page,
): Promise<readonly Key[]> {
  await getBusiness(database, businessId)
  const after = page.after?.[0]
  const where = { business: businessId, ...(after !== undefined && { id: { $lt: after } }) }
  const em = database.orm.em.fork()
  return em.find(KeyEntity, where, { orderBy: { id: 'desc' }, limit: page.limit + 1 })
}

/** The business of a key; undefined when there is no such key. */
export async function keyOwner(pool: Pool, keyId: string): Promise<string | undefined> {
  const result = await pool.query<{ business_id: string }>({
    name: 'api-key-owner',
    text: 'select business_id from api_key where id = $1',
    values: [keyId],
  })
  return result.rows[0]?.business_id
}
