import { type EntityManager, LockMode } from '@mikro-orm/postgresql'
import type { Clock } from '../../core/clock.ts'
import { Fault } from '../../core/errors.ts'
import type { Database } from '../../postgres/orm.ts'
import { appendAudit } from '../audit/append-audit-entry.ts'
import type { AuditKeys } from '../audit/audit-mac.ts'
import { type Actor, actorFor, type CallSource, type InternalCaller } from '../caller.ts'
import { SessionEntity } from './session.entity.ts'

interface Dependencies {
  readonly database: Database
  readonly clock: Clock
}

/**
 * Revokes a session. Revoking it again changes nothing.
 *
 * @throws Fault not_found when the session does not exist
 */
export async function revokeSession(
  { database, clock }: Dependencies,
  sessionId: string,
  actor: Actor,
): Promise<void> {
  await database.orm.em
    .fork()
    .transactional((em) => end(em, clock, sessionId, actor, 'session.revoke'))
}

/** Ends the session of a caller, who signs out. */
export type SignOut = (caller: InternalCaller, source: CallSource) => Promise<void>

export function createSignOut({
  database,
  clock,
  auditKeys,
}: Dependencies & { readonly auditKeys: AuditKeys }): SignOut {
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
