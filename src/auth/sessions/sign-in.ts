import type { EntityManager } from '@mikro-orm/postgresql'
import type { Database } from '../../postgres/orm.ts'
import { queryableOf } from '../../postgres/queries-of.ts'
import type { AuditKeys } from '../audit/audit-hash.ts'
import { actorFor, BOOTSTRAP, type CallSource } from '../caller.ts'
import type { AuthenticateToken } from '../tokens/authenticate-token.ts'
import { hashToken, idIn } from '../tokens/token-secret.ts'
import { provesToken } from './authenticate-session.ts'
import {
  type Grant,
  type OpenedSession,
  openSession,
  type SessionSettings,
} from './open-session.ts'
import { type GrantRow, openPortalLink, takeSignInCode } from './store.ts'

/** What a browser exchanges for a session. */
export type SignInCredential =
  | { readonly token: string }
  /** A one-time code or that of a portal link. */
  | { readonly code: string }

export interface SignInDependencies extends SessionSettings {
  readonly database: Database
  readonly authenticateToken: AuthenticateToken
  readonly auditKeys: AuditKeys
}

/** Exchanges a credential for a session; undefined: the credential is not valid. */
export type SignIn = (
  credential: SignInCredential,
  source: CallSource,
) => Promise<OpenedSession | undefined>

export function createSignIn(dependencies: SignInDependencies): SignIn {
  const { database, authenticateToken } = dependencies
  return async (credential, source) => {
    const granted =
      'token' in credential ? await grantOfToken(authenticateToken, credential.token) : undefined
    if ('token' in credential && granted === undefined) return undefined
    return database.orm.em.fork().transactional(async (em) => {
      const grant =
        'code' in credential ? await grantOfCode(em, dependencies, credential.code) : granted
      return grant && openForGrant(em, dependencies, grant, source)
    })
  }
}

/** Begins a session for a grant that is proved, and names its caller in the audit log. */
export function openForGrant(
  em: EntityManager,
  settings: SessionSettings & { readonly auditKeys: AuditKeys },
  grant: Grant,
  source: CallSource,
): Promise<OpenedSession> {
  const { callerId: tokenId, name } = grant
  const caller = { kind: 'internal', tokenId, name, scopes: new Set(grant.scopes) } as const
  return openSession(em, settings, grant, actorFor(caller, source, settings.auditKeys))
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

/** A one-time code is used up by the commit of the session that it begins. */
async function grantOfCode(
  em: EntityManager,
  { clock, adminToken }: SessionSettings,
  code: string,
): Promise<Grant | undefined> {
  const on = queryableOf(em)
  const nowMs = clock.now()
  const codeId = idIn('sic', code)
  if (codeId !== undefined) {
    const row = await takeSignInCode(on, codeId, hashToken(code), nowMs)
    if (row?.callerId === BOOTSTRAP && !provesToken(row.proof, code, adminToken)) return undefined
    return row && toGrant('token', row)
  }
  const linkId = idIn('plk', code)
  if (linkId === undefined) return undefined
  const row = await openPortalLink(on, linkId, hashToken(code), nowMs)
  return row && toGrant('portal', row)
}

function toGrant(kind: Grant['kind'], row: GrantRow): Grant {
  const { callerId, name, scopes, businessIds, expiresAtMs } = row
  const rights = { businessIds: businessIds ?? undefined, expiresAtMs: expiresAtMs ?? undefined }
  return { kind, callerId, name, scopes, ...rights }
}
