import type { ServiceImpl } from '@connectrpc/connect'
import type {
  AccountService,
  ListAccountsRequest,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import { actorOf, requireAdmin, restrictionOf } from '../auth/caller.ts'
import { type BankNames, type BankOf, ID_KINDS } from '../banks/bank.ts'
import { toBankCode } from '../banks/message.ts'
import type { Clock } from '../core/clock.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Database } from '../postgres/orm.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import { identityText, type OpenAccount, type StoredAccount, toVerification } from './account.ts'
import { closeAccount } from './close-account.ts'
import type { CreateAccountCall } from './create-account.ts'
import { getAccount } from './get-account.ts'
import { listAccounts } from './list-accounts.ts'
import { toAccountMessage, toAccountStatus, toIdKind } from './message.ts'
import { resolveAccount } from './resolve-account.ts'
import { readTerms } from './terms/message.ts'
import { metadataOf } from './terms/read-terms.ts'

interface Dependencies {
  readonly database: Database
  readonly bankOf: BankOf
  readonly encrypter: Encrypter
  readonly clock: Clock
  readonly createAccount: CreateAccountCall
  readonly aliasOf: (businessId: string) => Promise<string>
  readonly onCommit: () => void
  readonly bankNames: BankNames
}

export function createAccountRpc(dependencies: Dependencies): ServiceImpl<typeof AccountService> {
  const { database, createAccount, encrypter, bankNames } = dependencies
  const shown = (account: OpenAccount | StoredAccount) => ({
    ...toAccountMessage(account),
    bankName: bankNames[account.bank],
  })
  const { pool, read } = database
  const hashesOf = ({ idType, idNumber }: ListAccountsRequest) => {
    if (idNumber === '') return undefined
    // Banks that do not require the kind may have received a number without one.
    const kind = toIdKind(idType)
    const kinds = kind === undefined ? [...ID_KINDS, undefined] : [kind]
    return kinds.flatMap((each) => encrypter.fingerprints(identityText(each, idNumber)))
  }
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
        verification: toVerification(request),
        terms: readTerms(request),
        metadata: metadataOf(request.metadata),
      })
      return { account: shown(account), replayed }
    },
    async getAccount(request) {
      const { businessId, reference } = request
      const key = { businessId, live: undefined, reference }
      const account = await read((on) => getAccount(on, key))
      return { account: shown(account) }
    },
    async listAccounts(request, context) {
      if (request.idNumber !== '') requireAdmin(context, 'id_number')
      const page = readPage(request.pageSize, request.pageToken, 1)
      const businessId = request.businessId || undefined
      const { live } = request
      const allowed = restrictionOf(context.values)
      const status = toAccountStatus(request.status)
      const idNumberHashes = hashesOf(request)
      const filter = { businessId, allowed, live, status, idNumberHashes }
      const found = await read((on) => listAccounts(on, filter, page))
      const { rows, nextPageToken } = cutPage(found, page, (account) => [account.id])
      return { accounts: rows.map(shown), nextPageToken }
    },
    async closeAccount(request, context) {
      const { businessId, reference } = request
      const key = { businessId, live: undefined, reference }
      const account = await closeAccount({ ...dependencies, pool }, key, actorOf(context))
      return { account: shown(account) }
    },
    async resolveAccount({ businessId, reference, resolution }, context) {
      const opened = resolution.case === 'opened' ? resolution.value : undefined
      // Whether a number is free, or whose it is, concerns other businesses.
      const request = { businessId, reference, opened }
      const account = await resolveAccount(dependencies, request, actorOf(context))
      return account ? { account: shown(account) } : {}
    },
  }
}
