import type { HandlerContext, ServiceImpl } from '@connectrpc/connect'
import { AccountStatus, OpeningState } from '../../gen/inflow/account/v1/account_pb.ts'
import type {
  AccountService,
  ImportedAccount as ImportedMessage,
  ListAccountsRequest,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import {
  type Actor,
  actorOf,
  callSourceKey,
  isOperator,
  requireScope,
  restrictionOf,
} from '../auth/caller.ts'
import { type BankNames, type BankOf, ID_KINDS } from '../banks/bank.ts'
import { toBankCode, toBankFilter } from '../banks/message.ts'
import { inChunks } from '../core/concurrency.ts'
import type { FieldFault } from '../core/errors.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutScan, readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { enumName, enumNames, isLive, toTimestamp } from '../protobuf/values.ts'
import { identityText, type OpenAccount, type StoredAccount, toVerification } from './account.ts'
import { closeAccount } from './close-account.ts'
import type { CreateAccountCall } from './create-account.ts'
import { type AccountKey, getAccount } from './get-account.ts'
import { type ImportedRow, importAccounts } from './import-accounts.ts'
import { listAccounts } from './list-accounts.ts'
import {
  readSplit,
  readTerms,
  toAccountMessage,
  toIdKind,
  toImportedAccount,
  toImportResults,
  toRecipientMessage,
} from './message.ts'
import { resolveAccount } from './resolve-account.ts'
import {
  approveRecipient,
  checkRecipients,
  listRecipients,
  NEEDS_APPROVAL,
  type RequestedSplit,
  revokeRecipient,
} from './splits/approvals.ts'
import type { Split } from './splits/split.ts'
import { findSplit } from './splits/split-store.ts'
import { metadataOf } from './terms.ts'

interface Dependencies {
  readonly bankOf: BankOf
  /** Limits how many closings hold a connection while they wait for a row or the audit log. */
  readonly semaphore: Semaphore
  readonly encrypter: Encrypter
  readonly createAccount: CreateAccountCall
  /** Sets how payments into an account are divided. */
  readonly setSplit: (
    key: AccountKey,
    requested: RequestedSplit | undefined,
    actor: Actor,
  ) => Promise<{ readonly account: StoredAccount; readonly split: Split | undefined }>
  readonly aliasOf: (businessId: string) => Promise<string>
  readonly bankNames: BankNames
  /** Finds the imported accounts that have a payment that was reported for their number. */
  readonly findConfirmed: (
    on: Queryable,
    accounts: readonly { readonly id: string; readonly importedAtMs: number }[],
  ) => Promise<ReadonlySet<string>>
  /** Validates one account of an import and returns its faults. */
  readonly checkAccount: (account: ImportedMessage) => readonly FieldFault[]
}

export function createAccountRpc(
  runtime: Runtime,
  dependencies: Dependencies,
): ServiceImpl<typeof AccountService> {
  const { database, clock } = runtime
  const { createAccount, encrypter, setSplit, bankNames } = dependencies
  const { findConfirmed, checkAccount } = dependencies
  const { durablePool, read } = database
  const shown = (
    account: OpenAccount | StoredAccount,
    split: Split | undefined,
    confirmed: ReadonlySet<string>,
  ) => ({
    ...toAccountMessage(account, split),
    ...importState(account, confirmed),
    bankName: bankNames[account.bank],
  })
  /** Queries the database for imported accounts only. */
  const confirmedOf = async (on: Queryable, accounts: readonly (OpenAccount | StoredAccount)[]) => {
    const imported = accounts.flatMap(({ id, importedAtMs }) =>
      importedAtMs === undefined ? [] : [{ id, importedAtMs }],
    )
    return imported.length === 0 ? NONE : findConfirmed(on, imported)
  }
  /** An account with its current split. */
  const showOne = async (on: Queryable, account: OpenAccount | StoredAccount) =>
    shown(account, await findSplit(on, account.id), await confirmedOf(on, [account]))
  const hashesOf = ({ idType, idNumber }: ListAccountsRequest) => {
    if (idNumber === '') return undefined
    // A number may have been stored without its kind, for banks that do not require the kind.
    const kind = toIdKind(idType)
    const kinds = kind === undefined ? [...ID_KINDS, undefined] : [kind]
    return kinds.flatMap((each) => encrypter.fingerprints(identityText(each, idNumber)))
  }
  return {
    async createAccount(request, context) {
      const { businessId } = request
      const requested = readSplit(request.split, nameableBy(context))
      if (requested && requested.split.recipients.length > 0) {
        requireScope(context, 'splits:write', 'split')
      }
      const { split: given, refusal } = await checkRecipients(durablePool, businessId, requested)
      const { account, replayed } = await createAccount({
        businessId,
        live: isLive(request),
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
        split: given,
        refusal,
        span: context.values.get(callSourceKey)?.span,
      })
      // The split may have been changed since, if an earlier call opened the account.
      const own = replayed ? showOne(durablePool, account) : shown(account, given, NONE)
      return { account: await own, replayed }
    },
    async getAccount(request) {
      const { businessId, reference } = request
      const key = { businessId, live: undefined, reference }
      return read(async (on) => ({ account: await showOne(on, await getAccount(on, key)) }))
    },
    async listAccounts(request, context) {
      if (request.idNumber !== '') requireScope(context, 'admin', 'id_number')
      const page = readPage(request.pageSize, request.pageToken, 1)
      const businessId = request.businessId || undefined
      const { live } = request
      const allowed = restrictionOf(context.values)
      const status = enumName(AccountStatus, request.status)
      const idNumberHashes = hashesOf(request)
      const bank = toBankFilter(request.bank)
      const openingStates = enumNames(OpeningState, request.openingStates)
      const filter = {
        businessId,
        allowed,
        live,
        status,
        idNumberHashes,
        bank,
        openingStates,
        customerEmail: request.customerEmail || undefined,
      }
      const list = await read(async (on) => {
        const listed = await listAccounts(on, filter, page)
        return { ...listed, confirmed: await confirmedOf(on, listed.accounts) }
      })
      const edge = list.readUpTo && [list.readUpTo]
      const { rows, nextPageToken } = cutScan(list.accounts, page, ({ id }) => [id], edge)
      const accounts = rows.map((each) => shown(each, list.splits.get(each.id), list.confirmed))
      return { accounts, nextPageToken }
    },
    async setAccountSplit({ businessId, reference, split: message }, context) {
      const key = { businessId, live: undefined, reference }
      const requested = readSplit(message, nameableBy(context))
      const { account, split } = await setSplit(key, requested, actorOf(context))
      return { account: shown(account, split, await confirmedOf(durablePool, [account])) }
    },
    async approveSplitRecipient(request, context) {
      const approval = await approveRecipient(database, clock, request, actorOf(context))
      return { recipient: toRecipientMessage(approval) }
    },
    async revokeSplitRecipient(request, context) {
      await revokeRecipient(database, request, actorOf(context))
      return {}
    },
    async listSplitRecipients({ businessId, pageSize, pageToken }) {
      const page = readPage(pageSize, pageToken, 1)
      const { rows, nextPageToken } = await listRecipients(database, businessId, page)
      return { recipients: rows.map(toRecipientMessage), nextPageToken }
    },
    async closeAccount(request, context) {
      const { businessId, reference } = request
      const key = { businessId, live: undefined, reference }
      const account = await closeAccount(runtime, dependencies, key, actorOf(context))
      return { account: await showOne(durablePool, account) }
    },
    async resolveAccount({ businessId, reference, resolution }, context) {
      const opened = resolution.case === 'opened' ? resolution.value : undefined
      // Whether a number is taken, and by whom, must not be revealed: it may belong to another business.
      const request = { businessId, reference, opened }
      const account = await resolveAccount(runtime, dependencies, request, actorOf(context))
      return account ? { account: await showOne(durablePool, account) } : {}
    },
    async importAccounts(message, context) {
      const { businessId, validateOnly, accounts } = message
      const rows = await inChunks(accounts, (row): ImportedRow => {
        const faults = checkAccount(row)
        return faults.length > 0 ? { faults } : { account: toImportedAccount(row), faults }
      })
      const request = { businessId, live: isLive(message), validateOnly, rows }
      const results = await importAccounts(runtime, dependencies, request, actorOf(context))
      return { results: toImportResults(results) }
    },
  }
}

const NONE: ReadonlySet<string> = new Set()

function importState(account: OpenAccount | StoredAccount, confirmed: ReadonlySet<string>) {
  const { importedAtMs } = account
  if (importedAtMs === undefined) return {}
  return { importedAt: toTimestamp(importedAtMs), bankConfirmed: confirmed.has(account.id) }
}

/** The businesses that the caller may name as recipients without an approval; undefined: all. */
function nameableBy(context: HandlerContext): ReadonlySet<string> | undefined {
  return isOperator(context) ? restrictionOf(context.values) : NEEDS_APPROVAL
}
