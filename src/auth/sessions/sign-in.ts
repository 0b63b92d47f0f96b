import { type EntityManager, LockMode } from '@mikro-orm/postgresql'
import type { Runtime } from '../../postgres/runtime.ts'
import type { AuditKeys } from '../audit/audit-hash.ts'
import { PortalLinkEntity, SignInCodeEntity, TokenEntity } from '../auth.entity.ts'
import type { AuthenticateToken } from '../authenticate-token.ts'
import { actorFor, BOOTSTRAP, type CallSource } from '../caller.ts'
import { hashSecret, idIn } from '../token-secret.ts'
import { provesToken } from './authenticate-session.ts'
import {
  type Grant,
  type OpenedSession,
  openSession,
  type SessionSettings,
} from './open-session.ts'

/** The credential that a browser exchanges for a session. */
export type SignInCredential =
  | { readonly token: string }
  /** A one-time code, or the code of a portal link. */
  | { readonly code: string }

interface SignInDependencies extends SessionSettings {
  readonly authenticateToken: AuthenticateToken
  readonly auditKeys: AuditKeys
}

/** Exchanges a credential for a session; undefined: the credential is not valid. */
export type SignIn = (
  credential: SignInCredential,
  source: CallSource,
) => Promise<OpenedSession | undefined>

export function createSignIn(runtime: Runtime, dependencies: SignInDependencies): SignIn {
  const { database } = runtime
  const { authenticateToken } = dependencies
  return async (credential, source) => {
    const granted =
      'token' in credential ? await grantOfToken(authenticateToken, credential.token) : undefined
    if ('token' in credential && granted === undefined) return undefined
    return database.orm.em.fork().transactional(async (em) => {
      const grant =
        'code' in credential
          ? await grantOfCode(runtime, em, dependencies, credential.code)
          : granted
      return grant && openForGrant(runtime, em, dependencies, grant, source)
    })
  }
}

/** Begins a session for an authenticated grant, and records its caller in the audit log. */
export function openForGrant(
  runtime: Runtime,
  em: EntityManager,
  settings: SessionSettings & { readonly auditKeys: AuditKeys },
  grant: Grant,
  source: CallSource,
): Promise<OpenedSession> {
  const { callerId: tokenId, name } = grant
  const caller = { kind: 'internal', tokenId, name, scopes: new Set(grant.scopes) } as const
  return openSession(runtime, em, settings, grant, actorFor(caller, source, settings.auditKeys))
}

async function grantOfToken(
  authenticateToken: AuthenticateToken,
  token: string,
): Promise<Grant | undefined> {
  const caller = await authenticateToken(token)
  if (caller === undefined) return undefined
  const { tokenId: callerId, name, scopes, businessIds, expiresAtMs } = caller
  const restriction = businessIds && [...businessIds]
  const rights = { scopes: [...scopes], businessIds: restriction, expiresAtMs }
  return { kind: 'token', callerId, name, ...rights }
}

/** Concurrent calls with the same code run in turns: only one of them gets the row. */
const LOCKED = { lockMode: LockMode.PESSIMISTIC_WRITE } as const

async function grantOfCode(
  { clock }: Runtime,
  em: EntityManager,
  { adminToken }: SessionSettings,
  code: string,
): Promise<Grant | undefined> {
  const now = new Date(clock.now())
  const codeId = idIn('sic', code)
  if (codeId !== undefined) return takeSignInCode(em, codeId, code, adminToken, now)
  const linkId = idIn('plk', code)
  return linkId === undefined ? undefined : openPortalLink(em, linkId, code, now)
}

/** A one-time code is used up by the commit of the session that it begins. */
async function takeSignInCode(
  em: EntityManager,
  id: string,
  secret: string,
  adminToken: string | undefined,
  now: Date,
): Promise<Grant | undefined> {
  const valid = { secretHash: hashSecret(secret), expiresAt: { $gt: now } }
  const code = await em.findOne(SignInCodeEntity, { id, ...valid }, LOCKED)
  if (!code) return undefined
  const { callerId, name, scopes, businessIds, callerExpiresAt } = code
  const isInForce =
    callerId === BOOTSTRAP
      ? provesToken(code.proof ?? null, secret, adminToken)
      : await em.findOne(TokenEntity, { id: callerId, revokedAt: null })
  // Keep the code: it may still be valid by the clock of another instance.
  if (!isInForce || (callerExpiresAt && callerExpiresAt <= now)) return undefined
  em.remove(code)
  return {
    kind: 'token',
    callerId,
    name,
    scopes,
    businessIds: businessIds ?? undefined,
    expiresAtMs: callerExpiresAt?.getTime(),
  }
}

/** A portal link may be opened again and again. */
async function openPortalLink(
  em: EntityManager,
  id: string,
  secret: string,
  now: Date,
): Promise<Grant | undefined> {
  const valid = { secretHash: hashSecret(secret), expiresAt: { $gt: now }, revokedAt: null }
  const link = await em.findOne(PortalLinkEntity, { id, ...valid }, LOCKED)
  if (!link) return undefined
  if (!link.lastUsedAt || link.lastUsedAt < now) link.lastUsedAt = now
  return {
    kind: 'portal',
    callerId: id,
    name: link.description,
    scopes: link.scopes,
    businessIds: [link.businessId],
    expiresAtMs: link.expiresAt.getTime(),
  }
}
