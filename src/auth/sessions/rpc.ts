import { create } from '@bufbuild/protobuf'
import { durationMs, timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import {
  CallerKind,
  type Caller as CallerMessage,
  CallerSchema,
  type PortalLink as PortalLinkMessage,
  PortalLinkSchema,
  type Session as SessionMessage,
  SessionSchema,
} from '../../../gen/inflow/session/v1/session_pb.ts'
import type { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { DAY_MS } from '../../core/durations.ts'
import { assert } from '../../core/errors.ts'
import { cutPage, readPage } from '../../postgres/page-token.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { toOptionalTimestamp } from '../../protobuf/values.ts'
import type { PortalLink } from '../auth.entity.ts'
import {
  actorOf,
  BOOTSTRAP,
  callingToken,
  type InternalCaller,
  restrictionOf,
  type Scope,
  type SessionKind,
} from '../caller.ts'
import { revokeSession, SESSION_MS_MAX } from './open-session.ts'
import {
  createPortalLink,
  listPortalLinks,
  PORTAL_SCOPES_DEFAULT,
  revokePortalLink,
} from './portal-links.ts'
import { createSignInCode } from './sign-in-codes.ts'
import { findSession, listSessionRows, type SessionRow } from './store.ts'

/** The default validity of a portal link. */
const PORTAL_LINK_TTL_MS = DAY_MS

interface Dependencies {
  /** ADMIN_TOKEN; undefined: not set. */
  readonly adminToken: string | undefined
  /** How long a session lasts without being used. */
  readonly idleMs: number
  /** PUBLIC_URL; undefined: not set. */
  readonly publicUrl: URL | undefined
  /** The properties of the service that its callers see. */
  readonly service: {
    readonly version: string
    readonly embedded: boolean
    readonly sandbox: boolean
  }
  /** The branding of portals; undefined: portals look like the console of operators. */
  readonly branding:
    | { readonly name: string; readonly logoPath: string; readonly color: string }
    | undefined
}

export function createSessionRpc(
  runtime: Runtime,
  dependencies: Dependencies,
): ServiceImpl<typeof SessionService> {
  const { database, clock } = runtime
  const { adminToken, idleMs, service, publicUrl, branding } = dependencies
  const urlOf = (path: string) => (publicUrl === undefined ? '' : `${publicUrl.origin}${path}`)
  return {
    async getCaller(_request, context) {
      const caller = callingToken(context)
      const isPortal = caller.businessIds?.size === 1
      return { caller: toCallerMessage(caller), service, ...(isPortal && branding && { branding }) }
    },
    async createSignInCode(_request, context) {
      const caller = callingToken(context)
      const code = await createSignInCode(runtime, adminToken, caller, actorOf(context))
      const { urlPath } = code
      return { urlPath, url: urlOf(urlPath), expiresAt: timestampFromMs(code.expiresAtMs) }
    },
    async listSessions({ activeOnly, pageSize, pageToken }) {
      const page = readPage(pageSize, pageToken, 1)
      const nowMs = clock.now()
      const found = await database.read((on) =>
        listSessionRows(on, {
          limit: page.limit,
          before: page.after?.[0],
          active: activeOnly ? { nowMs, idleMs, beganSinceMs: nowMs - SESSION_MS_MAX } : undefined,
        }),
      )
      const { rows, nextPageToken } = cutPage(found, page, (session) => [session.id])
      return { sessions: rows.map((row) => toSessionMessage(row, nowMs, idleMs)), nextPageToken }
    },
    async revokeSession({ sessionId }, context) {
      await revokeSession(runtime, sessionId, actorOf(context))
      const row = await findSession(database.durablePool, sessionId)
      assert(row, 'a session is kept after it is revoked')
      return { session: toSessionMessage(row, clock.now(), idleMs) }
    },
    async createPortalLink(request, context) {
      const { businessId, description, ttl } = request
      const scopes = request.scopes.length > 0 ? (request.scopes as Scope[]) : PORTAL_SCOPES_DEFAULT
      const ttlMs = ttl === undefined ? PORTAL_LINK_TTL_MS : durationMs(ttl)
      const requested = { businessId, scopes, ttlMs, description }
      const caller = callingToken(context)
      const created = await createPortalLink(runtime, requested, caller, actorOf(context))
      const { link, urlPath } = created
      return { portalLink: toPortalLinkMessage(link), urlPath, url: urlOf(urlPath) }
    },
    async listPortalLinks({ businessId, activeOnly, pageSize, pageToken }, context) {
      const page = readPage(pageSize, pageToken, 1)
      const filter = { businessId, activeOnly, allowed: restrictionOf(context.values) }
      const found = await listPortalLinks(runtime, filter, page)
      const { rows, nextPageToken } = cutPage(found, page, (link) => [link.id])
      return { portalLinks: rows.map(toPortalLinkMessage), nextPageToken }
    },
    async revokePortalLink({ portalLinkId }, context) {
      const link = await revokePortalLink(runtime, portalLinkId, actorOf(context))
      return { portalLink: toPortalLinkMessage(link) }
    },
  }
}

function toCallerMessage(caller: InternalCaller): CallerMessage {
  const { tokenId, name, scopes, businessIds, expiresAtMs, session } = caller
  const certificate = session === undefined && tokenId.startsWith('spiffe://')
  return create(CallerSchema, {
    kind: certificate ? CallerKind.CERTIFICATE : kindOf(session?.kind ?? 'token', tokenId),
    id: tokenId,
    name,
    scopes: [...scopes],
    businessIds: [...(businessIds ?? [])],
    expiresAt: toOptionalTimestamp(expiresAtMs),
    sessionId: session?.id ?? '',
  })
}

function toSessionMessage(row: SessionRow, nowMs: number, idleMs: number): SessionMessage {
  const { id, kind, callerId, name, scopes, businessIds, address, revokedAtMs } = row
  const expired = Math.min(row.expiresAtMs, row.lastUsedAtMs + idleMs) <= nowMs
  return create(SessionSchema, {
    id,
    callerId,
    name,
    address,
    kind: kindOf(kind, callerId),
    scopes: [...scopes],
    businessIds: [...(businessIds ?? [])],
    createdAt: timestampFromMs(row.createdAtMs),
    lastUsedAt: timestampFromMs(row.lastUsedAtMs),
    expiresAt: timestampFromMs(row.expiresAtMs),
    revokedAt: toOptionalTimestamp(revokedAtMs),
    active: !row.revoked && !expired,
  })
}

function kindOf(kind: SessionKind, callerId: string): CallerKind {
  switch (kind) {
    case 'portal':
      return CallerKind.PORTAL_LINK
    case 'oidc':
      return CallerKind.OIDC
    case 'token':
      return callerId === BOOTSTRAP ? CallerKind.ADMIN_TOKEN : CallerKind.TOKEN
  }
}

function toPortalLinkMessage(link: PortalLink): PortalLinkMessage {
  return create(PortalLinkSchema, {
    id: link.id,
    businessId: link.businessId,
    scopes: link.scopes,
    description: link.description,
    createdAt: timestampFromDate(link.createdAt),
    expiresAt: timestampFromDate(link.expiresAt),
    ...(link.revokedAt && { revokedAt: timestampFromDate(link.revokedAt) }),
    ...(link.lastUsedAt && { lastUsedAt: timestampFromDate(link.lastUsedAt) }),
  })
}
