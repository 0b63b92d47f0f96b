import { create } from '@bufbuild/protobuf'
import type { ServiceImpl } from '@connectrpc/connect'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { CustomerAccountsSchema } from '../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import type { AccountStatus } from '../accounts/account.ts'
import { closeAccount } from '../accounts/close-account.ts'
import { listAccounts } from '../accounts/list-accounts.ts'
import { checkSplit } from '../accounts/splits/approvals.ts'
import type { Split } from '../accounts/splits/split.ts'
import { findSplit, findSplits } from '../accounts/splits/split-store.ts'
import { attachIdentity, type Identity, updateAccount } from '../accounts/update-account.ts'
import { actorOf, callingBusiness } from '../auth/caller.ts'
import type { BankNames, IdKind } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { assert } from '../core/errors.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import type { SetSplit } from '../transactions/set-split.ts'
import {
  readExpiry,
  readSplit,
  succeed,
  toCustomerAccount,
  toFoundAccount,
  toFullAccount,
  toPageToken,
} from './message.ts'

export type AccountDependencies = Parameters<typeof updateAccount>[1] &
  Omit<Parameters<typeof closeAccount>[1], 'semaphore'> & {
    /** Limits how many changes hold a connection while they wait for a row or the audit log. */
    readonly changes: Semaphore
    readonly setSplit: SetSplit
    readonly timeText: TimeText
    readonly bankNames: BankNames
  }

/** The methods of a business for its open accounts. */
export function createAccountMethods(runtime: Runtime, dependencies: AccountDependencies) {
  const { database } = runtime
  const { changes, setSplit, timeText, bankNames } = dependencies
  const { durablePool, read } = database
  const shown = (account: Parameters<typeof toFullAccount>[0], split: Split | undefined) =>
    toFullAccount(account, split, timeText, bankNames)
  return {
    async updateVirtualAccount(request, context) {
      const { businessId, live } = callingBusiness(context)
      const { reference, firstName, lastName, email, phone, expiresAt, expiresIn } = request
      const key = { businessId, live, reference }
      const change = {
        firstName,
        lastName,
        email,
        phone,
        expiresAtMs: expiresAt === undefined ? undefined : readExpiry(expiresAt, timeText),
        expiresInSeconds: expiresIn,
      }
      const requested = readSplit(request.split)
      // The split is checked before the account is changed.
      await checkSplit(durablePool, businessId, requested)
      const actor = actorOf(context)
      const account = await changes(() => updateAccount(runtime, dependencies, key, change, actor))
      if (requested !== undefined) await changes(() => setSplit(key, requested, actor))
      const split = await findSplit(durablePool, account.id)
      return succeed('Account updated', shown(account, split))
    },
    async upgradeVirtualAccount({ reference, customer, idType, idNumber, bvn }, context) {
      const { businessId, live } = callingBusiness(context)
      const target = { businessId, live, reference, customer }
      const identity: Identity =
        bvn === ''
          ? { idType: idType as IdKind, idNumber, field: 'idNumber' }
          : { idType: 'bvn', idNumber: bvn, field: 'bvn' }
      const accounts = await changes(() =>
        attachIdentity(runtime, dependencies, target, identity, actorOf(context)),
      )
      const splits = await findSplits(
        durablePool,
        accounts.map(({ id }) => id),
      )
      const [newest, ...others] = accounts.map((account) =>
        toFoundAccount(account, splits.get(account.id), timeText, bankNames),
      )
      assert(newest, 'an upgrade without an account is refused')
      const customerAccounts = create(CustomerAccountsSchema, {
        accounts: [newest, ...others].map(toCustomerAccount),
      })
      const data = reference === '' ? { ...newest, customerAccounts } : newest
      return succeed('Account upgraded', data)
    },
    async closeVirtualAccount({ reference }, context) {
      const { businessId, live } = callingBusiness(context)
      const key = { businessId, live, reference }
      const bounded = { ...dependencies, semaphore: changes }
      const account = await closeAccount(runtime, bounded, key, actorOf(context))
      const data = shown(account, await findSplit(durablePool, account.id))
      return succeed('Account closed', data)
    },
    async listVirtualAccounts({ pageSize, pageToken, status }, context) {
      const { businessId, live } = callingBusiness(context)
      const page = readPage(pageSize, pageToken, 1)
      const filter = {
        businessId,
        live,
        allowed: undefined,
        idNumberHashes: undefined,
        status: (status || undefined) as AccountStatus | undefined,
      }
      const listed = await read((on) => listAccounts(on, filter, page))
      const { rows, nextPageToken } = cutPage(listed.accounts, page, ({ id }) => [id])
      const accounts = rows.map((account) => shown(account, listed.splits.get(account.id)))
      return succeed('Accounts retrieved', { accounts, ...toPageToken(nextPageToken) })
    },
  } satisfies Partial<ServiceImpl<typeof ThirdPartyService>>
}
