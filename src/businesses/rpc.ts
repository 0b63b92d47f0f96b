import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { Clock } from '../clock.ts'
import type { Database } from '../store/orm.ts'
import { cutPage, readPage } from '../store/page-token.ts'
import { createBusiness } from './create-business.ts'
import { getBusiness, listBusinesses } from './get-business.ts'
import { issueKey, listKeys, revokeKey } from './keys.ts'
import { toBusinessMessage, toKeyMessage } from './message.ts'

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
    async issueKey(request) {
      const expiresAt = request.expiresAt && timestampDate(request.expiresAt)
      const { key, secretKey } = await issueKey(database, clock, request.businessId, expiresAt)
      return { key: toKeyMessage(key), secretKey }
    },
    async revokeKey(request) {
      return { key: toKeyMessage(await revokeKey(database, clock, request.keyId)) }
    },
    async listKeys(request) {
      return { keys: (await listKeys(database, request.businessId)).map(toKeyMessage) }
    },
  }
}
