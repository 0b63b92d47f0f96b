import { durationMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { actorOf, type KeyScope, restrictionOf } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { Database } from '../postgres/orm.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import { fromTimestamp } from '../protobuf/timestamp.ts'
import { createBusiness } from './create-business.ts'
import { getBusiness, listBusinesses } from './get-business.ts'
import { importKey, issueKey, listKeys, revokeKey, updateKey } from './keys.ts'
import { toBusinessMessage, toKeyMessage } from './message.ts'
import { rotateKey } from './rotate-key.ts'
import { searchBusinesses } from './search-businesses.ts'
import { updateBusiness } from './update-business.ts'

export function createBusinessRpc(
  database: Database,
  clock: Clock,
): ServiceImpl<typeof BusinessService> {
  return {
    async createBusiness(request, context) {
      const actor = actorOf(context)
      const { business, secretKey } = await createBusiness(database, clock, request, actor)
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
        const matching = await searchBusinesses(database.pool, query, only, page.limit)
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
    async issueKey({ businessId, test, allowedCidrs, scopes, expiresAt: expires }, context) {
      const expiresAt = expires && new Date(fromTimestamp(expires))
      const requested = {
        ...{ businessId, live: !test, allowedCidrs, expiresAt },
        // Validation admits no others.
        scopes: scopes as KeyScope[],
      }
      const { key, secretKey } = await issueKey(database, clock, requested, actorOf(context))
      return { key: toKeyMessage(key), secretKey }
    },
    async importKey(request, context) {
      const { businessId, test, allowedCidrs, secretKey: secret, expiresAt: expires } = request
      const expiresAt = expires && new Date(fromTimestamp(expires))
      const scopes = request.scopes as KeyScope[]
      const requested = { businessId, live: !test, allowedCidrs, expiresAt, scopes, secret }
      return { key: toKeyMessage(await importKey(database, clock, requested, actorOf(context))) }
    },
    async updateKey({ keyId, allowedCidrs, anyAddress }, context) {
      const ranges = anyAddress || allowedCidrs.length > 0 ? allowedCidrs : undefined
      const key = await updateKey(database, clock, keyId, ranges, actorOf(context))
      return { key: toKeyMessage(key) }
    },
    async rotateKey({ keyId, overlap, expiresAt: expires }, context) {
      const overlapMs = overlap && durationMs(overlap)
      const expiresAt = expires && new Date(fromTimestamp(expires))
      const rotation = { keyId, overlapMs, expiresAt }
      const rotated = await rotateKey(database, clock, rotation, actorOf(context))
      return {
        key: toKeyMessage(rotated.key),
        secretKey: rotated.secretKey,
        replaced: toKeyMessage(rotated.replaced),
      }
    },
    async revokeKey(request, context) {
      const key = await revokeKey(database, clock, request.keyId, actorOf(context))
      return { key: toKeyMessage(key) }
    },
    async listKeys(request) {
      const page = readPage(request.pageSize, request.pageToken, 1)
      const found = await listKeys(database, request.businessId, page)
      const { rows, nextPageToken } = cutPage(found, page, (key) => [key.id])
      return { keys: rows.map(toKeyMessage), nextPageToken }
    },
  }
}

/** Those of the requested businesses that the caller may see; undefined: all. */
function choose(
  requested: readonly string[],
  allowed: ReadonlySet<string> | undefined,
): readonly string[] | undefined {
  if (requested.length === 0) return allowed && [...allowed]
  return allowed === undefined ? requested : requested.filter((id) => allowed.has(id))
}
