import { LockMode, UniqueConstraintViolationException } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { type Actor, ADDRESS_BOUND_SCOPE, type KeyScope } from '../auth/caller.ts'
import type { Owner } from '../auth/method-policy.ts'
import { hashSecret } from '../auth/token-secret.ts'
import { isWiderThanOneNetwork } from '../core/addresses.ts'
import { DAY_MS } from '../core/durations.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import type { Database } from '../postgres/orm.ts'
import type { Page } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { readAllowedCidrs } from './authenticate-key.ts'
import { type Business, type Key, KeyEntity } from './business.entity.ts'
import { findBusiness, getBusiness } from './get-business.ts'
import { foreignPrefix, isForeignKey, newSecretKey } from './secret-key.ts'

/** The key to issue. */
interface NewKey extends KeyRights {
  readonly businessId: string
}

interface KeyRights {
  readonly live: boolean
  /** Address ranges, as an operator writes them; empty: any address. */
  readonly allowedCidrs: readonly string[]
  /** Empty: the key may call the methods that are open to keys without scopes. */
  readonly scopes: readonly KeyScope[]
  readonly expiresAt: Date | undefined
}

/** A new key, and its secret, which cannot be read again. */
interface IssuedKey {
  readonly key: Key
  readonly secretKey: string
}

/**
 * Issues another key of a business.
 *
 * @throws Fault not_found (the business), validation_failed (the ranges)
 */
export async function issueKey(
  { database, clock }: Runtime,
  requested: NewKey,
  actor: Actor,
): Promise<IssuedKey> {
  const allowedCidrs = readAllowedCidrs(requested.allowedCidrs)
  requireAddresses({ ...requested, allowedCidrs })
  const nowMs = clock.now()
  return database.orm.em.fork().transactional(async (em) => {
    const business = await findBusiness(em, requested.businessId)
    const issued = addKey(em, business, { ...requested, allowedCidrs }, nowMs)
    await appendAudit(em, actor, {
      action: 'key.issue',
      targetId: issued.key.id,
      businessId: business.id,
      details: keyDetails(issued.key),
    })
    return issued
  })
}

/**
 * Imports the text of a key that another provider made, so that the business can keep the key. Only the hash is stored. A
 * repeated call returns the key in its current state.
 *
 * @throws Fault not_found (the business), validation_failed (the text or the ranges), duplicate_key (the text is a key
 * of another business or mode, or was revoked or has expired)
 */
export async function importKey(
  { database, clock }: Runtime,
  { secret, ...requested }: NewKey & { readonly secret: string },
  actor: Actor,
): Promise<Key> {
  if (!isForeignKey(secret)) {
    const message =
      'must be 24 to 256 characters of A-Z, a-z, 0-9 and ._~+/-, as another provider made it'
    throw invalidFields([{ field: 'secretKey', message }])
  }
  const { businessId, live } = requested
  const allowedCidrs = readAllowedCidrs(requested.allowedCidrs)
  requireAddresses({ ...requested, allowedCidrs })
  const secretHash = hashSecret(secret)
  const nowMs = clock.now()
  const imported = database.orm.em.fork().transactional(async (em) => {
    const business = await findBusiness(em, businessId)
    const id = newId('key', nowMs)
    const stored = { id, prefix: foreignPrefix(secret), secretHash, imported: true }
    const key = createKey(em, business, { ...requested, allowedCidrs }, stored, nowMs)
    const details = keyDetails(key)
    const entry = { action: 'key.import', targetId: key.id, businessId, details } as const
    await appendAudit(em, actor, entry)
    return key
  })
  return imported.catch(async (error: unknown) => {
    if (!(error instanceof UniqueConstraintViolationException)) throw error
    const key = await database.orm.em
      .fork()
      .findOneOrFail(KeyEntity, { secretHash, imported: true })
    const isValid = !key.revokedAt && !(key.expiresAt && key.expiresAt.getTime() <= nowMs)
    if (key.business.id === businessId && key.live === live && isValid) return key
    throw new Fault('duplicate_key', 'The text is or was already a key; use another text', {
      cause: error,
    })
  })
}

/** @throws Fault validation_failed (the key could move money from any address, or from too wide a range) */
function requireAddresses({ scopes, allowedCidrs }: Pick<KeyRights, 'scopes' | 'allowedCidrs'>) {
  if (!scopes.includes(ADDRESS_BOUND_SCOPE)) return
  if (allowedCidrs.length === 0) {
    const message = `is required with the scope ${ADDRESS_BOUND_SCOPE}: state where the key is used from`
    throw invalidFields([{ field: 'allowedCidrs', message }])
  }
  const wide = allowedCidrs.filter(isWiderThanOneNetwork)
  if (wide.length === 0) return
  const message = `must name networks with the scope ${ADDRESS_BOUND_SCOPE}, at most a /8, or a /16 in IPv6: ${wide.join(', ')} is wider`
  throw invalidFields([{ field: 'allowedCidrs', message }])
}

/** Adds a key inside a transaction. @param rights with address ranges in canonical form */
export function addKey(
  em: EntityManager,
  business: Business,
  rights: KeyRights,
  nowMs: number,
): IssuedKey {
  const id = newId('key', nowMs)
  const { secret, prefix, secretHash } = newSecretKey(id, rights.live)
  const stored = { id, prefix, secretHash, imported: false }
  return { key: createKey(em, business, rights, stored, nowMs), secretKey: secret }
}

function createKey(
  em: EntityManager,
  business: Business,
  { live, allowedCidrs, scopes, expiresAt }: KeyRights,
  stored: Pick<Key, 'id' | 'prefix' | 'secretHash' | 'imported'>,
  nowMs: number,
): Key {
  return em.create(KeyEntity, {
    ...stored,
    business,
    live,
    allowedCidrs: [...allowedCidrs],
    scopes: [...scopes],
    createdAt: new Date(nowMs),
    expiresAt: expiresAt ?? null,
    revokedAt: null,
    lastUsedAt: null,
  })
}

/** The audit details of a new key. */
function keyDetails({ prefix, live, expiresAt, allowedCidrs, scopes }: Key) {
  return {
    prefix,
    live,
    ...(expiresAt && { expiresAt }),
    ...(allowedCidrs.length > 0 && { allowedCidrs }),
    ...(scopes.length > 0 && { scopes }),
  }
}

/**
 * Changes the addresses that a key may be used from.
 *
 * @param ranges as an operator writes them; empty: any address; undefined: unchanged
 * @throws Fault validation_failed (the ranges), not_found, key_inactive
 */
export async function updateKey(
  { database, clock }: Runtime,
  keyId: string,
  ranges: readonly string[] | undefined,
  actor: Actor,
): Promise<Key> {
  const allowedCidrs = ranges && [...readAllowedCidrs(ranges)]
  return database.orm.em.fork().transactional(async (em) => {
    const key = await lockActiveKey(em, keyId, clock.now())
    if (allowedCidrs === undefined) return key
    requireAddresses({ scopes: key.scopes, allowedCidrs })
    key.allowedCidrs = allowedCidrs
    await appendAudit(em, actor, {
      action: 'key.update',
      targetId: keyId,
      businessId: key.business.id,
      details: { prefix: key.prefix, allowedCidrs },
    })
    return key
  })
}

/**
 * Revokes a key. Revoking it again changes nothing.
 *
 * @throws Fault not_found when the key does not exist
 */
export async function revokeKey(
  { database, clock }: Runtime,
  keyId: string,
  actor: Actor,
): Promise<Key> {
  return database.orm.em.fork().transactional(async (em) => {
    const key = await lockKey(em, keyId)
    if (key.revokedAt) return key
    key.revokedAt = new Date(clock.now())
    const { business, prefix } = key
    await appendAudit(em, actor, {
      action: 'key.revoke',
      targetId: keyId,
      businessId: business.id,
      details: { prefix },
    })
    return key
  })
}

/** Locks a key that is neither revoked nor expired. @throws Fault not_found, key_inactive */
async function lockActiveKey(em: EntityManager, keyId: string, nowMs: number): Promise<Key> {
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
 * Returns the keys of a business, newest first: one row more than the page size if there are more.
 *
 * @throws Fault not_found when the business does not exist
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

/**
 * The keys whose ids are in a range, newest first.
 *
 * @param businessIds undefined: all
 */
export async function searchKeys(
  { orm }: Database,
  { first, last }: { readonly first: string; readonly last: string },
  businessIds: readonly string[] | undefined,
  limit: number,
): Promise<readonly Key[]> {
  const where = {
    id: { $gte: first, $lte: last },
    ...(businessIds && { business: { $in: [...businessIds] } }),
  }
  return orm.em.fork().find(KeyEntity, where, { orderBy: { id: 'desc' }, limit })
}

/** Returns whose a key is; undefined if the key does not exist. */
export async function keyOwner(orm: MikroORM, keyId: string): Promise<Owner | undefined> {
  const key = await orm.em.fork().findOne(KeyEntity, keyId, { fields: ['business', 'live'] })
  return key ? { businessId: key.business.id, live: key.live } : undefined
}

/** How long the replaced key stays valid unless the caller states an overlap. */
const OVERLAP_MS = DAY_MS

interface KeyRotation {
  readonly keyId: string
  /** Undefined: 24 hours. */
  readonly overlapMs: number | undefined
  /** When the new key expires; undefined: never. */
  readonly expiresAt: Date | undefined
}

/**
 * Issues a key that replaces another, with the same mode, addresses and scopes. The replaced key stays
 * valid for the overlap, but never longer than before.
 *
 * @throws Fault not_found, key_inactive
 */
export async function rotateKey(
  { database, clock }: Runtime,
  { keyId, overlapMs = OVERLAP_MS, expiresAt }: KeyRotation,
  actor: Actor,
): Promise<IssuedKey & { readonly replaced: Key }> {
  return database.orm.em.fork().transactional(async (em) => {
    const nowMs = clock.now()
    const replaced = await lockActiveKey(em, keyId, nowMs)
    const endMs = nowMs + overlapMs
    const endsMs = Math.min(replaced.expiresAt?.getTime() ?? endMs, endMs)
    replaced.expiresAt = new Date(endsMs)
    const { business, live, allowedCidrs, scopes } = replaced
    const issued = addKey(em, business, { live, allowedCidrs, scopes, expiresAt }, nowMs)
    await appendAudit(em, actor, {
      action: 'key.rotate',
      targetId: keyId,
      businessId: business.id,
      details: { overlapMs, keyId: issued.key.id, ...keyDetails(issued.key) },
    })
    return { ...issued, replaced }
  })
}
