import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import {
  type Business as BusinessMessage,
  BusinessSchema,
  type Key as KeyMessage,
  KeySchema,
} from '../../gen/inflow/business/v1/business_pb.ts'
import type { Business } from './business.entity.ts'
import type { Key } from './key.entity.ts'

export function toBusinessMessage(business: Business): BusinessMessage {
  return create(BusinessSchema, {
    id: business.id,
    name: business.name,
    alias: business.alias,
    rateLimitPerSecond: business.rateLimitPerSecond ?? 0,
    rateLimitBurst: business.rateLimitBurst ?? 0,
    createdAt: timestampFromDate(business.createdAt),
  })
}

export function toKeyMessage(key: Key): KeyMessage {
  return create(KeySchema, {
    id: key.id,
    businessId: key.business,
    prefix: key.prefix,
    createdAt: timestampFromDate(key.createdAt),
    live: key.live,
    allowedCidrs: key.allowedCidrs,
    scopes: key.scopes,
    imported: key.imported,
    ...(key.lastUsedAt && { lastUsedAt: timestampFromDate(key.lastUsedAt) }),
    ...(key.expiresAt && { expiresAt: timestampFromDate(key.expiresAt) }),
    ...(key.revokedAt && { revokedAt: timestampFromDate(key.revokedAt) }),
  })
}
