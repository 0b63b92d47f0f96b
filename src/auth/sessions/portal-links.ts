import { LockMode } from '@mikro-orm/core'
import { findBusiness } from '../../businesses/get-business.ts'
import { DAY_MS } from '../../core/durations.ts'
import { Fault } from '../../core/errors.ts'
import { firstIdAt, newId } from '../../core/ids.ts'
import type { Database } from '../../postgres/orm.ts'
import type { Page } from '../../postgres/page-token.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { appendAudit } from '../audit/append-audit-entry.ts'
import { type PortalLink, PortalLinkEntity } from '../auth.entity.ts'
import type { Actor, InternalCaller, Scope } from '../caller.ts'
import type { Owner } from '../method-policy.ts'
import { newSecret } from '../token-secret.ts'
import { signInPath } from './sign-in-codes.ts'

/** The longest validity of a link, 30 days; the contract states it too. */
export const PORTAL_LINK_TTL_MS_MAX = 30 * DAY_MS

/** The default scopes of a link. */
export const PORTAL_SCOPES_DEFAULT: readonly Scope[] = ['read', 'events:subscribe']

interface NewPortalLink {
  readonly businessId: string
  readonly scopes: readonly Scope[]
  readonly ttlMs: number
  readonly description: string
}

/**
 * Creates a link that opens the console for one business.
 *
 * @returns the link, and its path with the secret, which cannot be read again
 * @throws Fault not_found (the business), permission_denied (more than the caller may do)
 */
export async function createPortalLink(
  { database, clock }: Runtime,
  requested: NewPortalLink,
  caller: InternalCaller,
  actor: Actor,
): Promise<{ readonly link: PortalLink; readonly urlPath: string }> {
  const { businessId, scopes, ttlMs, description } = requested
  requireRights(caller, requested)
  const nowMs = clock.now()
  const id = newId('plk', nowMs)
  const { secret, secretHash } = newSecret('plk', id)
  const expiresAt = new Date(nowMs + ttlMs)
  const link = await database.orm.em.fork().transactional(async (em) => {
    await findBusiness(em, businessId)
    const created = em.create(PortalLinkEntity, {
      id,
      businessId,
      description,
      secretHash,
      scopes: [...scopes],
      createdAt: new Date(nowMs),
      expiresAt,
    })
    const details = { description, scopes, expiresAt }
    await appendAudit(em, actor, {
      action: 'portal_link.create',
      targetId: id,
      businessId,
      details,
    })
    return created
  })
  return { link, urlPath: signInPath(secret) }
}

/** A link never has more rights than its creator, whatever the policy of the method allows. */
function requireRights(
  { scopes: held, businessIds }: InternalCaller,
  { businessId, scopes }: NewPortalLink,
): void {
  if (businessIds !== undefined && !businessIds.has(businessId)) {
    throw new Fault('permission_denied', 'The token is restricted to other businesses')
  }
  const lacking = scopes.filter((scope) => !held.has('admin') && !held.has(scope))
  if (lacking.length === 0 && !scopes.includes('admin')) return
  throw new Fault('permission_denied', `A link cannot have the scope ${lacking.join(' or ')}`)
}

/** The links to list. */
interface PortalLinkFilter {
  /** Empty: of any business. */
  readonly businessId: string
  /** The businesses that the caller may see; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
  /** Only links that can still be opened. */
  readonly activeOnly: boolean
}

/** Returns links, newest first: one row more than the page size if there are more. */
export async function listPortalLinks(
  { database, clock }: Runtime,
  { businessId, allowed, activeOnly }: PortalLinkFilter,
  page: Page,
): Promise<PortalLink[]> {
  const after = page.after?.[0]
  const businessIds = businessId === '' ? allowed && [...allowed] : [businessId]
  const nowMs = clock.now()
  // Ids begin with the time, so links that expired long ago are not read.
  const oldest = firstIdAt('plk', nowMs - PORTAL_LINK_TTL_MS_MAX)
  const active = { revokedAt: null, expiresAt: { $gt: new Date(nowMs) } }
  return database.orm.em.fork().find(
    PortalLinkEntity,
    {
      ...(businessIds && { businessId: { $in: businessIds } }),
      ...(activeOnly && active),
      id: { ...(activeOnly && { $gte: oldest }), ...(after !== undefined && { $lt: after }) },
    },
    { orderBy: { id: 'desc' }, limit: page.limit + 1 },
  )
}

/**
 * Revokes a link, and with it every session that it began. Revoking it again changes nothing.
 *
 * @throws Fault not_found when the link does not exist
 */
export async function revokePortalLink(
  { database, clock }: Runtime,
  linkId: string,
  actor: Actor,
): Promise<PortalLink> {
  return database.orm.em.fork().transactional(async (em) => {
    const lockMode = LockMode.PESSIMISTIC_WRITE
    const link = await em.findOne(PortalLinkEntity, linkId, { lockMode })
    if (!link) throw new Fault('not_found', 'There is no such portal link')
    if (link.revokedAt) return link
    link.revokedAt = new Date(clock.now())
    const { businessId, description } = link
    const details = { description }
    await appendAudit(em, actor, {
      action: 'portal_link.revoke',
      targetId: linkId,
      businessId,
      details,
    })
    return link
  })
}

/** The owner of a link; undefined if the link does not exist. A link shows both modes. */
export async function portalLinkOwner({ orm }: Database, id: string): Promise<Owner | undefined> {
  const link = await orm.em.fork().findOne(PortalLinkEntity, id, { fields: ['businessId'] })
  return link ? { businessId: link.businessId, live: true } : undefined
}
