import { create } from '@bufbuild/protobuf'
import { durationMs, timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import { wrap } from '@mikro-orm/core'
import { type ApiRequest, ApiRequestSchema } from '../../gen/inflow/business/v1/api_request_pb.ts'
import {
  type Business as BusinessMessage,
  BusinessSchema,
  type Key as KeyMessage,
  KeySchema,
} from '../../gen/inflow/business/v1/business_pb.ts'
import type { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { type Actor, actorOf, type KeyScope, restrictionOf } from '../auth/caller.ts'
import type { Database } from '../postgres/orm.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { fromTimestamp, isLive } from '../protobuf/values.ts'
import { changeRateLimit } from './authenticate-key.ts'
import type { Business, Key } from './business.entity.ts'
import { createBusiness } from './create-business.ts'
import { findBusiness, getBusiness, listBusinesses, searchBusinesses } from './get-business.ts'
import { importKey, issueKey, listKeys, revokeKey, rotateKey, updateKey } from './keys.ts'
import { type LoggedRequest, listRequests } from './request-log.ts'

export function createBusinessRpc(runtime: Runtime): ServiceImpl<typeof BusinessService> {
  const { database } = runtime
  return {
    async createBusiness(request, context) {
      const actor = actorOf(context)
      const { business, secretKey } = await createBusiness(runtime, request, actor)
      return { business: toBusinessMessage(business), secretKey }
    },
    async getBusiness(request) {
      return { business: toBusinessMessage(await getBusiness(database, request.businessId)) }
    },
    async listBusinesses(request, { values }) {
      const page = readPage(request.pageSize, request.pageToken, 1)
      const { query, businessIds } = request
      const only = choose(businessIds, restrictionOf(values))
      if (query !== '') {
        const matching = await searchBusinesses(database.durablePool, query, only, page.limit)
        return { businesses: matching.map(toBusinessMessage), nextPageToken: '' }
      }
      const found = await listBusinesses(database, page, only)
      const { rows, nextPageToken } = cutPage(found, page, (business) => [business.id])
      return { businesses: rows.map(toBusinessMessage), nextPageToken }
    },
    async updateBusiness(request, context) {
      const business = await updateBusiness(database, request, actorOf(context))
      return { business: toBusinessMessage(business) }
    },
    async issueKey(request, context) {
      const { businessId, allowedCidrs, scopes, expiresAt: expires } = request
      const expiresAt = expires && new Date(fromTimestamp(expires))
      const requested = {
        businessId,
        live: isLive(request),
        allowedCidrs,
        expiresAt,
        // Validation admits no other texts.
        scopes: scopes as KeyScope[],
      }
      const { key, secretKey } = await issueKey(runtime, requested, actorOf(context))
      return { key: toKeyMessage(key), secretKey }
    },
    async importKey(request, context) {
      const { businessId, allowedCidrs, secretKey: secret, expiresAt: expires } = request
      const expiresAt = expires && new Date(fromTimestamp(expires))
      const scopes = request.scopes as KeyScope[]
      const live = isLive(request)
      const requested = { businessId, live, allowedCidrs, expiresAt, scopes, secret }
      return { key: toKeyMessage(await importKey(runtime, requested, actorOf(context))) }
    },
    async updateKey({ keyId, allowedCidrs, anyAddress }, context) {
      const ranges = anyAddress || allowedCidrs.length > 0 ? allowedCidrs : undefined
      const key = await updateKey(runtime, keyId, ranges, actorOf(context))
      return { key: toKeyMessage(key) }
    },
    async rotateKey({ keyId, overlap, expiresAt: expires }, context) {
      const overlapMs = overlap && durationMs(overlap)
      const expiresAt = expires && new Date(fromTimestamp(expires))
      const rotation = { keyId, overlapMs, expiresAt }
      const rotated = await rotateKey(runtime, rotation, actorOf(context))
      return {
        key: toKeyMessage(rotated.key),
        secretKey: rotated.secretKey,
        replaced: toKeyMessage(rotated.replaced),
      }
    },
    async revokeKey(request, context) {
      const key = await revokeKey(runtime, request.keyId, actorOf(context))
      return { key: toKeyMessage(key) }
    },
    async listKeys(request) {
      const page = readPage(request.pageSize, request.pageToken, 1)
      const found = await listKeys(database, request.businessId, page)
      const { rows, nextPageToken } = cutPage(found, page, (key) => [key.id])
      return { keys: rows.map(toKeyMessage), nextPageToken }
    },
    async listApiRequests({ pageSize, pageToken, live, from, to, ...filters }, { values }) {
      const page = readPage(pageSize, pageToken, 1)
      const restriction = restrictionOf(values)
      const filter = {
        ...filters,
        live,
        allowed: restriction && [...restriction],
        fromMs: from && fromTimestamp(from),
        toMs: to && fromTimestamp(to),
      }
      const { rows, nextPageToken } = await database.read((on) => listRequests(on, filter, page))
      return { requests: rows.map(toRequestMessage), nextPageToken }
    },
  }
}

/** The requested businesses that the caller may see; undefined: all. */
function choose(
  requested: readonly string[],
  allowed: ReadonlySet<string> | undefined,
): readonly string[] | undefined {
  if (requested.length === 0) return allowed && [...allowed]
  return allowed === undefined ? requested : requested.filter((id) => allowed.has(id))
}

function toBusinessMessage(business: Business): BusinessMessage {
  return create(BusinessSchema, {
    id: business.id,
    name: business.name,
    alias: business.alias,
    rateLimitPerSecond: business.rateLimitPerSecond ?? 0,
    rateLimitBurst: business.rateLimitBurst ?? 0,
    createdAt: timestampFromDate(business.createdAt),
  })
}

function toKeyMessage(key: Key): KeyMessage {
  return create(KeySchema, {
    id: key.id,
    businessId: key.business.id,
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

function toRequestMessage({ receivedAtMs, faults, ...request }: LoggedRequest): ApiRequest {
  const receivedAt = timestampFromMs(receivedAtMs)
  // Every method of the API is called with POST.
  return create(ApiRequestSchema, { ...request, faults: [...faults], receivedAt, method: 'POST' })
}

/** The change; absent fields stay unchanged. */
interface BusinessChange {
  readonly businessId: string
  readonly name?: string | undefined
  /** Applies to accounts that are opened from now on; open accounts keep their names. */
  readonly alias?: string | undefined
  /** 0: the default rate and burst. */
  readonly rateLimitPerSecond?: number | undefined
  /** 0: twice the sustained rate. */
  readonly rateLimitBurst?: number | undefined
}

/** @throws Fault not_found, validation_failed (a burst that is too large or has no rate) */
async function updateBusiness(
  database: Database,
  { businessId, name, alias, rateLimitPerSecond, rateLimitBurst }: BusinessChange,
  actor: Actor,
): Promise<Business> {
  return database.orm.em.fork().transactional(async (em) => {
    // The ORM's lock (FOR UPDATE) would block the creation of accounts of the business until the commit.
    await em.execute('select from business where id = ? for no key update', [businessId])
    const business = await findBusiness(em, businessId)
    const details = {
      ...(name !== undefined && { name }),
      ...(alias !== undefined && { alias }),
      ...changeRateLimit(business, { rateLimitPerSecond, rateLimitBurst }),
    }
    wrap(business).assign(details)
    await appendAudit(em, actor, {
      action: 'business.update',
      targetId: businessId,
      businessId,
      details,
    })
    return business
  })
}
