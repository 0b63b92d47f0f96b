import { create } from '@bufbuild/protobuf'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import {
  type AuditEntry as AuditEntryMessage,
  AuditEntrySchema,
} from '../../gen/inflow/admin/v1/audit_pb.ts'
import { type Token as TokenMessage, TokenSchema } from '../../gen/inflow/admin/v1/token_pb.ts'
import { readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import type { AuditEntry, AuditKeys } from './audit/audit-hash.ts'
import { listAuditEntries } from './audit/list-audit-entries.ts'
import { verifyAudit } from './audit/verify-audit.ts'
import type { Token } from './auth.entity.ts'
import { actorOf, restrictionOf, type Scope } from './caller.ts'
import { issueToken, listTokens, revokeToken } from './tokens.ts'

export function createAdminRpc(
  runtime: Runtime,
  auditKeys: AuditKeys,
): ServiceImpl<typeof AdminService> {
  const { database } = runtime
  return {
    async issueToken(request, context) {
      const requested = {
        name: request.name,
        description: request.description,
        scopes: request.scopes as Scope[],
        businessIds: request.businessIds,
        expiresAt: request.expiresAt && new Date(fromTimestamp(request.expiresAt)),
      }
      const { token, secret } = await issueToken(runtime, requested, actorOf(context))
      return { token: toTokenMessage(token), secret }
    },
    async revokeToken({ tokenId }, context) {
      const token = await revokeToken(runtime, tokenId, actorOf(context))
      return { token: toTokenMessage(token) }
    },
    async listTokens(request) {
      const page = readPage(request.pageSize, request.pageToken, 1)
      const { rows, nextPageToken } = await listTokens(
        database,
        page,
        request.active,
        runtime.clock.now(),
      )
      return { tokens: rows.map(toTokenMessage), nextPageToken }
    },
    async listAuditEntries(request, context) {
      const restriction = restrictionOf(context.values)
      const filter = {
        businessId: request.businessId || undefined,
        allowed: restriction && [...restriction],
        actorId: request.actorId || undefined,
        action: request.action || undefined,
        targetId: request.targetId || undefined,
        fromMs: request.from && fromTimestamp(request.from),
        toMs: request.to && fromTimestamp(request.to),
        oldestFirst: request.oldestFirst,
      }
      const { pageSize, pageToken } = request
      const { rows, nextPageToken, head } = await database.read((on) =>
        listAuditEntries(on, auditKeys, filter, pageSize, pageToken),
      )
      return {
        entries: rows.map(toAuditEntryMessage),
        nextPageToken,
        ...(restriction === undefined && { head }),
      }
    },
    async *verifyAudit({ from }, { signal }) {
      for await (const progress of verifyAudit(database, auditKeys, from, signal)) {
        const { broken } = progress
        yield {
          verifiedNumber: progress.number,
          verifiedHash: progress.hash,
          headNumber: progress.headNumber,
          completed: progress.completed,
          ...(broken && { firstBreak: { number: broken.number, problem: broken.why } }),
          cursor: progress.cursor,
        }
      }
    },
  }
}

function toTokenMessage(token: Token): TokenMessage {
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
