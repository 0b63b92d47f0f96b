import { type EntityManager, LockMode } from '@mikro-orm/postgresql'
import type { Clock } from '../../core/clock.ts'
import { HOUR_MS } from '../../core/durations.ts'
import { assert, Fault } from '../../core/errors.ts'
import { firstIdAt, newId } from '../../core/ids.ts'
import { queryableOf } from '../../postgres/queries-of.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { appendAudit } from '../audit/append-audit-entry.ts'
import type { AuditKeys } from '../audit/audit-hash.ts'
import { SessionEntity } from '../auth.entity.ts'
import {
  type Actor,
  actorFor,
  BOOTSTRAP,
  type CallSource,
  type InternalCaller,
  type Scope,
  type SessionKind,
} from '../caller.ts'
import { newSecret, proofOf } from '../token-secret.ts'
import { PORTAL_LINK_TTL_MS_MAX } from './portal-links.ts'
import { SIGN_IN_CODE_TTL_MS } from './sign-in-codes.ts'
import { deleteExpired } from './store.ts'

/** The longest that SESSION_MAX_HOURS allows. */
const SESSION_HOURS_MAX = 168

/** The longest duration of a session, whatever the settings were when it began. */
export const SESSION_MS_MAX = SESSION_HOURS_MAX * HOUR_MS

/** The most sessions that one token, portal link or user has at once. */
const SESSIONS_MAX = 100

/** When to retry after too many sessions: a session may have ended by then. */
const RETRY_AFTER_SECONDS = 60

export interface SessionSettings {
  /** ADMIN_TOKEN; undefined: not set. */
  readonly adminToken: string | undefined
  /** How long a session lasts without being used. */
  readonly idleMs: number
  /** The longest duration of a session. */
  readonly maxMs: number
}

/** The caller and rights of a session, and when its token or portal link expires. */
export interface Grant {
  readonly kind: SessionKind
  readonly callerId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** Undefined: not restricted. */
  readonly businessIds: readonly string[] | undefined
  /** When the token or portal link expires; undefined: never. */
  readonly expiresAtMs: number | undefined
}

/** A session that has begun. */
export interface OpenedSession {
  /** The secret for the cookie; it cannot be read again. */
  readonly secret: string
  readonly expiresAtMs: number
}

/**
 * Begins a session with a new secret, in the transaction of `em`.
 *
 * @throws Fault rate_limited when the caller has too many sessions
 */
export async function openSession(
  runtime: Runtime,
  em: EntityManager,
  settings: SessionSettings,
  grant: Grant,
  actor: Actor,
): Promise<OpenedSession> {
  const { clock } = runtime
  const { adminToken, maxMs } = settings
  const { kind, callerId, name, scopes, businessIds } = grant
  const nowMs = clock.now()
  await ensureBelowMax(em, settings, callerId, nowMs)
  await deleteExpired(queryableOf(em), nowMs, {
    sessionMs: SESSION_MS_MAX,
    linkMs: PORTAL_LINK_TTL_MS_MAX,
    codeMs: SIGN_IN_CODE_TTL_MS,
  })
  const id = newId('ses', nowMs)
  const { secret, secretHash } = newSecret('ses', id)
  const bootstrap = kind === 'token' && callerId === BOOTSTRAP
  assert(!bootstrap || adminToken !== undefined, 'only a token that is set authenticates')
  const expiresAtMs = Math.min(nowMs + maxMs, grant.expiresAtMs ?? Number.POSITIVE_INFINITY)
  em.create(SessionEntity, {
    id,
    kind,
    callerId,
    name,
    secretHash,
    scopes: [...scopes],
    businessIds: businessIds ? [...businessIds] : null,
    proof: bootstrap && adminToken !== undefined ? proofOf(secret, adminToken) : null,
    address: actor.address,
    createdAt: new Date(nowMs),
    lastUsedAt: new Date(nowMs),
    expiresAt: new Date(expiresAtMs),
  })
  await appendAudit(em, actor, {
    action: 'session.sign_in',
    targetId: id,
    businessId: businessIds?.length === 1 ? businessIds[0] : undefined,
    details: { kind, scopes, ...(businessIds && { businessIds }) },
  })
  return { secret, expiresAtMs }
}

/** Sign-ins of one caller run in turns here, so that concurrent sign-ins do not exceed the limit. */
async function ensureBelowMax(
  em: EntityManager,
  { idleMs }: SessionSettings,
  callerId: string,
  nowMs: number,
): Promise<void> {
  await em.execute("select pg_advisory_xact_lock(hashtextextended('session ' || ?, 0))", [callerId])
  const active = await em.count(SessionEntity, {
    callerId,
    id: { $gte: firstIdAt('ses', nowMs - SESSION_MS_MAX) },
    revokedAt: null,
    expiresAt: { $gt: new Date(nowMs) },
    lastUsedAt: { $gt: new Date(nowMs - idleMs) },
  })
  if (active < SESSIONS_MAX) return
  const text = `There are ${SESSIONS_MAX} sessions of this caller already: sign out of some first`
  throw new Fault('rate_limited', text, { retryAfterSeconds: RETRY_AFTER_SECONDS })
}

/**
 * Revokes a session. Revoking it again changes nothing.
 *
 * @throws Fault not_found when the session does not exist
 */
export async function revokeSession(
  { database, clock }: Runtime,
  sessionId: string,
  actor: Actor,
): Promise<void> {
  await database.orm.em
    .fork()
    .transactional((em) => end(em, clock, sessionId, actor, 'session.revoke'))
}

/** Ends the session of a caller who signs out. */
export type SignOut = (caller: InternalCaller, source: CallSource) => Promise<void>

export function createSignOut({ database, clock }: Runtime, auditKeys: AuditKeys): SignOut {
  return async (caller, source) => {
    const { session } = caller
    if (session === undefined) return
    const actor = actorFor(caller, source, auditKeys)
    await database.orm.em
      .fork()
      .transactional((em) => end(em, clock, session.id, actor, 'session.sign_out'))
  }
}

async function end(
  em: EntityManager,
  clock: Clock,
  sessionId: string,
  actor: Actor,
  action: 'session.revoke' | 'session.sign_out',
): Promise<void> {
  const session = await em.findOne(SessionEntity, sessionId, {
    lockMode: LockMode.PESSIMISTIC_WRITE,
  })
  if (!session) throw new Fault('not_found', 'There is no such session')
  if (session.revokedAt) return
  session.revokedAt = new Date(clock.now())
  const { callerId, name, businessIds } = session
  await appendAudit(em, actor, {
    action,
    targetId: sessionId,
    businessId: businessIds?.length === 1 ? businessIds[0] : undefined,
    details: { callerId, name },
  })
}
