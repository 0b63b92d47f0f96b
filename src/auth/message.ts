import { create } from '@bufbuild/protobuf'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type AuditEntry as AuditEntryMessage,
  AuditEntrySchema,
} from '../../gen/inflow/admin/v1/audit_pb.ts'
import { type Token as TokenMessage, TokenSchema } from '../../gen/inflow/admin/v1/token_pb.ts'
import type { AuditEntry } from './audit/audit-hash.ts'
import type { Token } from './tokens/token.entity.ts'

export function toTokenMessage(token: Token): TokenMessage {
  return create(TokenSchema, {
    id: token.id,
    name: token.name,
    description: token.description,
    prefix: token.prefix,
    scopes: token.scopes,
    businessIds: token.businessIds ?? [],
    createdAt: timestampFromDate(token.createdAt),
    ...(token.expiresAt && { expiresAt: timestampFromDate(token.expiresAt) }),
    ...(token.revokedAt && { revokedAt: timestampFromDate(token.revokedAt) }),
    ...(token.lastUsedAt && { lastUsedAt: timestampFromDate(token.lastUsedAt) }),
  })
}

export function toAuditEntryMessage(entry: AuditEntry): AuditEntryMessage {
  const { atMs, actorKind, actorId, actorName, ...rest } = entry
  return create(AuditEntrySchema, {
    ...rest,
    at: timestampFromMs(atMs),
    actor: { kind: actorKind, id: actorId, name: actorName },
  })
}
