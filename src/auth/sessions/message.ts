import { create } from '@bufbuild/protobuf'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  CallerKind,
  type Caller as CallerMessage,
  CallerSchema,
  type PortalLink as PortalLinkMessage,
  PortalLinkSchema,
  type Session as SessionMessage,
  SessionSchema,
} from '../../../gen/inflow/session/v1/session_pb.ts'
import { BOOTSTRAP, type InternalCaller, type SessionKind } from '../caller.ts'
import type { PortalLink } from './session.entity.ts'
import type { SessionRow } from './store.ts'

export function toCallerMessage(caller: InternalCaller): CallerMessage {
  const { tokenId, name, scopes, businessIds, expiresAtMs, session } = caller
  const certificate = session === undefined && tokenId.startsWith('spiffe://')
  return create(CallerSchema, {
    kind: certificate ? CallerKind.CERTIFICATE : kindOf(session?.kind ?? 'token', tokenId),
    id: tokenId,
    name,
    scopes: [...scopes],
    businessIds: [...(businessIds ?? [])],
    ...(expiresAtMs !== undefined && { expiresAt: timestampFromMs(expiresAtMs) }),
    sessionId: session?.id ?? '',
  })
}

export function toSessionMessage(row: SessionRow, nowMs: number, idleMs: number): SessionMessage {
  const { id, kind, callerId, name, scopes, businessIds, address, revokedAtMs } = row
  const expired = Math.min(row.expiresAtMs, row.lastUsedAtMs + idleMs) <= nowMs
  return create(SessionSchema, {
    ...{ id, callerId, name, address },
    kind: kindOf(kind, callerId),
    scopes: [...scopes],
    businessIds: [...(businessIds ?? [])],
    createdAt: timestampFromMs(row.createdAtMs),
    lastUsedAt: timestampFromMs(row.lastUsedAtMs),
    expiresAt: timestampFromMs(row.expiresAtMs),
    ...(revokedAtMs !== null && { revokedAt: timestampFromMs(revokedAtMs) }),
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

export function toPortalLinkMessage(link: PortalLink): PortalLinkMessage {
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
