import { durationMs, timestampDate } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { Clock } from '../clock.ts'
import type { Database } from '../store/orm.ts'
import { cutPage, readPage } from '../store/page-token.ts'
import { createBusiness } from './create-business.ts'
import { getBusiness, listBusinesses } from './get-business.ts'
import { issueKey, listKeys, revokeKey, updateKey } from './keys.ts'
import { toBusinessMessage, toKeyMessage } from './message.ts'
import { rotateKey } from './rotate-key.ts'
import { updateBusiness } from './update-business.ts'

export function createBusinessRpc(
  database: Database,
  clock: Clock,
): ServiceImpl<typeof BusinessService> {
  return {
    async createBusiness(request) {
      const { business, secretKey } = await createBusiness(database, clock, request)
      return { business: toBusinessMessage(business), secretKey }
    },
    async getBusiness(request) {
      return { business: toBusinessMessage(await getBusiness(database, request.businessId)) }
    },
    async listBusinesses(request) {
      const page = readPage(request.pageSize, request.pageToken, 1)
      const found = await listBusinesses(database, page)
      const { rows, nextPageToken } = cutPage(found, page, (business) => [business.id])
      return { businesses: rows.map(toBusinessMessage), nextPageToken }
    },
    async updateBusiness(request) {
      return { business: toBusinessMessage(await updateBusiness(database, request)) }
    },
    async issueKey({ businessId, test, allowedCidrs, expiresAt: ends }) {
      const expiresAt = ends && timestampDate(ends)
      const wanted = { businessId, live: !test, allowedCidrs, expiresAt }
      const { key, secretKey } = await issueKey(database, clock, wanted)
      return { key: toKeyMessage(key), secretKey }
    },
    async updateKey({ keyId, allowedCidrs, anyAddress }) {
      const ranges = anyAddress || allowedCidrs.length > 0 ? allowedCidrs : undefined
      return { key: toKeyMessage(await updateKey(database, clock, keyId, ranges)) }
    },
    async rotateKey({ keyId, overlap, expiresAt: ends }) {
      const overlapMs = overlap && durationMs(overlap)
      const expiresAt = ends && timestampDate(ends)
      const rotated = await rotateKey(database, clock, { keyId, overlapMs, expiresAt })
      return {
        key: toKeyMessage(rotated.key),
        secretKey: rotated.secretKey,
        replaced: toKeyMessage(rotated.replaced),
      }
    },
    async revokeKey(request) {
      return { key: toKeyMessage(await revokeKey(database, clock, request.keyId)) }
    },
    async listKeys(request) {
      const page = readPage(request.pageSize, request.pageToken, 1)
      const found = await listKeys(database, request.businessId, page)
      const { rows, nextPageToken } = cutPage(found, page, (key) => [key.id])
      return { keys: rows.map(toKeyMessage), nextPageToken }
    },
  }
}
