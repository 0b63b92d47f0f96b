import type { ServiceImpl } from '@connectrpc/connect'
import type { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { toBankCode } from '../banks/message.ts'
import { restrictionOf } from '../caller.ts'
import type { Database } from '../store/orm.ts'
import { cutPage, readPage } from '../store/page-token.ts'
import type { CreateAccountCall } from './create-account.ts'
import { getAccount } from './get-account.ts'
import { listAccounts } from './list-accounts.ts'
import { toAccountMessage, toAccountStatus, toIdKind } from './message.ts'

export function createAccountRpc(
  database: Database,
  createAccount: CreateAccountCall,
): ServiceImpl<typeof AccountService> {
  return {
    async createAccount(request) {
      const { account, replayed } = await createAccount({
        businessId: request.businessId,
        live: !request.test,
        reference: request.reference,
        bank: toBankCode(request.bank),
        firstName: request.firstName,
        lastName: request.lastName,
        email: request.email,
        phone: request.phone,
        idType: toIdKind(request.idType),
        idNumber: request.idNumber || undefined,
      })
      return { account: toAccountMessage(account), replayed }
    },
    async getAccount(request) {
      const { businessId, reference } = request
      const key = { businessId, live: undefined, reference }
      const account = await getAccount(database.pool, key)
      return { account: toAccountMessage(account) }
    },
    async listAccounts(request, { values }) {
      const page = readPage(request.pageSize, request.pageToken, 1)
      const businessId = request.businessId || undefined
      const { live } = request
      const allowed = restrictionOf(values)
      const status = toAccountStatus(request.status)
      const found = await listAccounts(database, { businessId, allowed, live, status }, page)
      const { rows, nextPageToken } = cutPage(found, page, (account) => [account.id])
      return { accounts: rows.map(toAccountMessage), nextPageToken }
    },
  }
}
