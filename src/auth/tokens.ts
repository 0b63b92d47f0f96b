import { LockMode } from '@mikro-orm/core'
import type { Pool } from 'pg'
import { findBusinessNames } from '../businesses/get-business.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import type { Database } from '../postgres/orm.ts'
import { cutPage, type Page } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { appendAudit } from './audit/append-audit-entry.ts'
import { type Token, TokenEntity } from './auth.entity.ts'
import type { Actor, Scope } from './caller.ts'
import { newSecret } from './token-secret.ts'

/** The token to issue. */
interface NewToken {
  readonly name: string
  readonly description: string
  readonly scopes: readonly Scope[]
  /** Empty: not restricted. */
  readonly businessIds: readonly string[]
  readonly expiresAt: Date | undefined
}

/**
 * Issues a token.
 *
 * @returns the token, and its secret, which cannot be read again
 * @throws Fault validation_failed (an unknown business)
 */
export async function issueToken(
  { database, clock }: Runtime,
  requested: NewToken,
  actor: Actor,
): Promise<{ readonly token: Token; readonly secret: string }> {
  await requireBusinesses(database, requested.businessIds)
  const nowMs = clock.now()
  const id = newId('tok', nowMs)
  const { secret, prefix, secretHash } = newSecret('tok', id)
  const { name, description, scopes, businessIds, expiresAt } = requested
  return database.orm.em.fork().transactional(async (em) => {
    const token = em.create(TokenEntity, {
      id,
      name,
      description,
      prefix,
      secretHash,
      scopes: [...scopes],
      businessIds: businessIds.length === 0 ? null : [...businessIds],
      createdAt: new Date(nowMs),
      expiresAt: expiresAt ?? null,
    })
    await appendAudit(em, actor, {
      action: 'token.issue',
      targetId: id,
      details: {
        name,
        scopes,
        ...(businessIds.length > 0 && { businessIds }),
        ...(expiresAt && { expiresAt }),
      },
    })
    return { token, secret }
  })
}

async function requireBusinesses(database: Database, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  const known = await findBusinessNames(database.durablePool, ids)
  const faults = ids.flatMap((id, index) =>
    known.has(id) ? [] : [{ field: `businessIds[${index}]`, message: 'is not a known business' }],
  )
  if (faults.length > 0) throw invalidFields(faults)
}

/**
 * Revokes a token. Revoking it again changes nothing.
 *
 * @throws Fault not_found when the token does not exist
 */
export async function revokeToken(
  { database, clock }: Runtime,
  tokenId: string,
  actor: Actor,
): Promise<Token> {
  return database.orm.em.fork().transactional(async (em) => {
    const lockMode = LockMode.PESSIMISTIC_WRITE
    const token = await em.findOne(TokenEntity, tokenId, { lockMode })
    if (!token) throw new Fault('not_found', 'There is no such token')
    if (token.revokedAt) return token
    token.revokedAt = new Date(clock.now())
    const { name } = token
    await appendAudit(em, actor, { action: 'token.revoke', targetId: tokenId, details: { name } })
    return token
  })
}

/**
 * One page of tokens, newest first.
 *
 * @param active true: only tokens that are neither revoked nor expired; false: only the other tokens; undefined: all
 */
export async function listTokens(
  { orm }: Database,
  page: Page,
  active: boolean | undefined,
  nowMs: number,
): Promise<{ readonly rows: readonly Token[]; readonly nextPageToken: string }> {
  const after = page.after?.[0]
  const now = new Date(nowMs)
  const tokens = await orm.em.fork().find(
    TokenEntity,
    {
      ...(after !== undefined && { id: { $lt: after } }),
      ...(active === true && {
        revokedAt: null,
        $or: [{ expiresAt: null }, { expiresAt: { $gt: now } }],
      }),
      ...(active === false && {
        $or: [{ revokedAt: { $ne: null } }, { expiresAt: { $lte: now } }],
      }),
    },
    { orderBy: { id: 'desc' }, limit: page.limit + 1 },
  )
  return cutPage(tokens, page, ({ id }) => [id])
}

/** Finds the tokens whose ids are in a range, newest first. */
export async function searchTokens(
  { orm }: Database,
  { first, last }: { readonly first: string; readonly last: string },
  limit: number,
): Promise<readonly Token[]> {
  const where = { id: { $gte: first, $lte: last } }
  return orm.em.fork().find(TokenEntity, where, { orderBy: { id: 'desc' }, limit })
}

type Scopes = ReadonlyMap<string, ReadonlySet<Scope>>

/** The settings that let callers administer the service without a token in the database. */
interface Administrators {
  readonly adminToken: string | undefined
  readonly tlsClientScopes: Scopes
  readonly console: {
    readonly enabled: boolean
    readonly oidc: { readonly roles: Scopes } | undefined
  }
}

/** The warning if no caller can administer the service. */
const RISK = {
  found:
    'no caller can administer this service: ADMIN_TOKEN is not set, and no token in the database has the scope admin',
  advice:
    'set ADMIN_TOKEN (openssl rand -base64 32) and restart; issue tokens with it, then remove it again',
} as const

/**
 * Whether any caller can issue keys and tokens: by ADMIN_TOKEN, a token of the database, a client certificate,
 * or a user who signs in by OpenID Connect.
 *
 * @returns the risk; empty: the service can be administered
 */
export async function readAdministratorRisk(
  pool: Pick<Pool, 'query'>,
  { adminToken, tlsClientScopes, console }: Administrators,
): Promise<readonly (typeof RISK)[]> {
  const certificates = [...tlsClientScopes.values()].some((scopes) => scopes.has('admin'))
  const roles = [...(console.oidc?.roles.values() ?? [])]
  // Without roles, the claim of the provider contains scopes itself.
  const users =
    console.enabled &&
    console.oidc &&
    (roles.length === 0 || roles.some((role) => role.has('admin')))
  if (adminToken !== undefined || certificates || users) return []
  const { rows } = await pool.query<{ found: boolean }>(
    `select exists (select from internal_token where revoked_at is null and business_ids is null
      and (expires_at is null or expires_at > now()) and 'admin' = any(scopes)) as found`,
  )
  return rows[0]?.found ? [] : [RISK]
}
