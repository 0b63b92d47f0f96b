import { create } from '@bufbuild/protobuf'
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect'
import {
  type Settlement as SettlementMessage,
  SettlementSchema,
  type StatementEntry,
  StatementEntrySchema,
} from '../../gen/inflow/thirdparty/v2/settlement_pb.ts'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { CustomerAccountsSchema } from '../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import { type StoredAccount, toVerification } from '../accounts/account.ts'
import type { CreateAccountCall } from '../accounts/create-account.ts'
import { type AccountKey, getAccount, getAccountsOfCustomer } from '../accounts/get-account.ts'
import { checkRecipients } from '../accounts/splits/approvals.ts'
import type { Split } from '../accounts/splits/split.ts'
import { findSplit, findSplits } from '../accounts/splits/split-store.ts'
import {
  type Actor,
  actorOf,
  type BusinessCaller,
  callingBusiness,
  callSourceKey,
} from '../auth/caller.ts'
import type { BankCode, BankNames } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { CURRENCY, toMajorNumber } from '../core/money.ts'
import { type PaymentTrace, paymentTraceOf } from '../core/tracing.ts'
import { readLogState } from '../events/log-state.ts'
import { endpointKindFaults } from '../events/message.ts'
import { readBusinessLog } from '../events/read-log.ts'
import type { Database } from '../postgres/orm.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { getBalance, listSettlements } from '../settlement/get-balance.ts'
import { type EntryPage, listEntries } from '../settlement/list-entries.ts'
import { isPayout, isSettlement } from '../settlement/message.ts'
import { netOf, type Settlement } from '../settlement/settlement.ts'
import { createGetShown, findIdBySession } from '../transactions/find-transactions.ts'
import { type ListTransactions, listTransactions } from '../transactions/list-transactions.ts'
import { listSettled } from '../transactions/read-history.ts'
import type { ShownTransaction, TransactionStatus } from '../transactions/transaction.ts'
import { acceptPayment, returnPayment } from '../transactions/variance/decide-held.ts'
import { listHeldPayments } from '../transactions/variance/list-held.ts'
import { createToEventBody } from '../webhooks/sender/body.ts'
import { type AccountDependencies, createAccountMethods } from './accounts-rpc.ts'
import {
  readSplit,
  readTimes,
  succeed,
  toAccountDetails,
  toAmountMinor,
  toBalance,
  toCustomerAccount,
  toFoundAccount,
  toListedTransaction,
  toPageToken,
  toTransaction,
  toVirtualAccount,
} from './message.ts'
import { createPayoutMethods, type PayoutDependencies } from './payouts-rpc.ts'
import { createWebhookMethods, type WebhookDependencies } from './webhooks-rpc.ts'

/** The number of events in a page if the caller sets no limit. */
const EVENTS_DEFAULT = 100

interface Dependencies
  extends AccountDependencies,
    PaymentDependencies,
    PayoutDependencies,
    WebhookDependencies {
  readonly timeText: TimeText
  readonly bankNames: BankNames
  readonly createAccount: CreateAccountCall
  readonly decisions: Semaphore
}

/** The API of external businesses; every call is scoped to its key's business and mode. */
export function createThirdPartyRpc(
  runtime: Runtime,
  dependencies: Dependencies,
): ServiceImpl<typeof ThirdPartyService> {
  const { database } = runtime
  const { timeText, bankNames, createAccount, decisions } = dependencies
  const { read } = database
  const getTransaction = createGetShown(read)
  const toEventBody = createToEventBody(timeText, bankNames)
  return {
    ...createAccountMethods(runtime, dependencies),
    ...createPaymentMethods(dependencies),
    ...createSettlementMethods(runtime, dependencies),
    ...createPayoutMethods(dependencies),
    ...createWebhookMethods(dependencies),
    async generateVirtualAccount(request, context) {
      const { businessId, live } = callingBusiness(context)
      const { reference } = request
      const details = toAccountDetails(request, timeText)
      const requested = readSplit(request.split)
      const { durablePool } = database
      const { split: given, refusal } = await checkRecipients(durablePool, businessId, requested)
      const { account, replayed } = await createAccount({
        businessId,
        live,
        reference,
        ...details,
        verification: toVerification(request),
        split: given,
        refusal,
        span: context.values.get(callSourceKey)?.span,
      })
      if (replayed) context.responseHeader.set('idempotent-replayed', 'true')
      // If an earlier call opened the account, the split may have been changed since.
      const split = replayed ? await findSplit(durablePool, account.id) : given
      const data = toVirtualAccount(account, split, timeText, bankNames)
      return succeed('Account reserved', data)
    },
    async getTransaction(request, context) {
      const { businessId, live } = callingBusiness(context)
      const transaction = await getTransaction({ businessId, live, sessionId: request.sessionId })
      const data = toTransaction(transaction, timeText)
      return {
        $typeName: 'inflow.thirdparty.v2.GetTransactionResponse',
        status: true,
        message: 'Transaction retrieved',
        data,
      }
    },
    async getVirtualAccount(request, context) {
      const { businessId, live } = callingBusiness(context)
      const shown = (account: StoredAccount, split: Split | undefined) =>
        toFoundAccount(account, split, timeText, bankNames)
      const { reference, email } = request
      if (reference !== '') {
        const data = await read(async (on) => {
          const account = await getAccount(on, { businessId, live, reference })
          return shown(account, await findSplit(on, account.id))
        })
        return succeed('Account retrieved', data)
      }
      const page = readPage(request.pageSize, request.pageToken, 1, 'page_token')
      const customer = { businessId, live, email }
      const { rows, nextPageToken, splits } = await read(async (on) => {
        const found = await getAccountsOfCustomer(on, customer, page)
        const cut = cutPage(found, page, ({ id }) => [id])
        const ids = cut.rows.map(({ id }) => id)
        return { ...cut, splits: await findSplits(on, ids) }
      })
      const accounts = rows.map((account) => shown(account, splits.get(account.id)))
      const [newest] = accounts
      if (newest === undefined) throw new Fault('not_found', 'The customer has no virtual account')
      const customerAccounts = create(CustomerAccountsSchema, {
        accounts: accounts.map(toCustomerAccount),
        ...toPageToken(nextPageToken),
      })
      return succeed('Accounts retrieved', { ...newest, customerAccounts })
    },
    async listTransactions(request, context) {
      const { businessId, live } = callingBusiness(context)
      const list: ListTransactions = {
        businessId,
        live,
        reference: request.reference,
        sessionId: request.sessionId,
        statuses: request.status === '' ? undefined : [request.status as TransactionStatus],
        ...readPeriod(request, timeText),
        pageSize: request.pageSize,
        pageToken: request.pageToken,
        pageTokenField: 'page_token',
      }
      const { rows, nextPageToken, settled } = await read(async (on) => {
        const page = await listTransactions(on, list)
        const ids = page.rows.flatMap((row) => (row.settled ? [row.id] : []))
        return { ...page, settled: await listSettled(on, ids) }
      })
      const transactions = rows.map((row) =>
        toListedTransaction(row, settled.get(row.id), timeText),
      )
      return succeed('Transactions retrieved', { transactions, ...toPageToken(nextPageToken) })
    },
    async acceptPayment(request, context) {
      const id = await heldIdOf(database, request, context)
      const accepted = await acceptPayment(runtime, decisions, id, actorOf(context))
      return succeed('Payment accepted', toTransaction(accepted, timeText))
    },
    async returnPayment(request, context) {
      const transactionId = await heldIdOf(database, request, context)
      const { reason } = request
      const requested = await returnPayment(
        runtime,
        decisions,
        { transactionId, reason },
        actorOf(context),
      )
      return succeed('Return requested', toTransaction(requested, timeText))
    },
    async listHeldPayments({ pageSize, pageToken }, context) {
      const { businessId, live } = callingBusiness(context)
      const list = { businessId, live, pageSize, pageToken, pageTokenField: 'page_token' } as const
      const { rows, nextPageToken } = await read((on) =>
        listHeldPayments(on, { ...list, allowed: undefined, hold: undefined }),
      )
      const transactions = rows.map((row) => toTransaction(row, timeText))
      return succeed('Held payments retrieved', { transactions, ...toPageToken(nextPageToken) })
    },
    async listEvents(request, context) {
      const { businessId, live } = callingBusiness(context)
      const faults = endpointKindFaults(request.kinds)
      if (faults.length > 0) throw invalidFields(faults)
      const { after, kinds } = request
      const selected = { after, kinds, limit: request.limit || EVENTS_DEFAULT }
      const data = await read(async (on) => {
        const { entries, ...page } = await readBusinessLog(on, { businessId, live, ...selected })
        const { epoch } = await readLogState(on)
        const events = entries.map((entry) => toEventBody(entry))
        return { events, epoch, hasMore: page.hasMore, nextAfter: Number(page.nextAfter) }
      })
      return succeed('Events retrieved', data)
    },
    async getBalance(_request, context) {
      const { businessId, live } = callingBusiness(context)
      const balance = await getBalance(database, { businessId, live })
      return succeed('Balance retrieved', toBalance(balance, balance.reservedMinor))
    },
  }
}

function heldIdOf(
  { durablePool }: Database,
  { sessionId, bank }: { readonly sessionId: string; readonly bank: string },
  context: HandlerContext,
): Promise<string> {
  const { businessId, live } = callingBusiness(context)
  const key = { businessId, live, sessionId, bank: bank as BankCode | '' }
  return findIdBySession(durablePool, key, true)
}

function readPeriod(
  request: Record<'from' | 'to' | 'recordedFrom' | 'recordedTo', string>,
  timeText: TimeText,
): Pick<ListTransactions, 'fromMs' | 'toMs' | 'recordedFromMs' | 'recordedToMs'> {
  const times = readTimes(timeText, {
    from: request.from,
    to: request.to,
    recorded_from: request.recordedFrom,
    recorded_to: request.recordedTo,
  })
  return {
    fromMs: times.from,
    toMs: times.to,
    recordedFromMs: times.recorded_from,
    recordedToMs: times.recorded_to,
  }
}

/** A new payment, or an earlier payment that is reported again. */
type SimulatedPayment =
  | { readonly reference: string; readonly amountMinor: bigint; readonly payerName: string }
  | { readonly sessionId: string }

interface PaymentDependencies {
  readonly timeText: TimeText
  readonly simulatePayment: (
    caller: BusinessCaller,
    payment: SimulatedPayment,
    actor: Actor,
    trace: PaymentTrace,
  ) => Promise<ShownTransaction>
  readonly requeryAccount: (key: AccountKey) => Promise<{
    readonly account: { readonly reference: string }
    readonly found: number
    readonly recorded: number
  }>
}

/** The methods that simulate payments, and that requery payments that a bank did not report. */
function createPaymentMethods(dependencies: PaymentDependencies) {
  const { timeText } = dependencies
  return {
    async simulatePayment({ reference, amount, payerName, sessionId }, context) {
      const payment =
        sessionId !== ''
          ? { sessionId }
          : { reference, amountMinor: toAmountMinor(amount), payerName }
      const caller = callingBusiness(context)
      const recorded = await dependencies.simulatePayment(
        caller,
        payment,
        actorOf(context),
        paymentTraceOf(context.values.get(callSourceKey)),
      )
      return succeed('Payment simulated', toTransaction(recorded, timeText))
    },
    async requeryTransaction({ reference }, context) {
      const { businessId, live } = callingBusiness(context)
      const requeried = await dependencies.requeryAccount({ businessId, live, reference })
      const { account, found, recorded } = requeried
      const data = { reference: account.reference, found, recorded }
      return succeed('Payments requested from the bank', data)
    },
  } satisfies Partial<ServiceImpl<typeof ThirdPartyService>>
}

/** The methods for settlements and statements. */
function createSettlementMethods(
  { database }: Runtime,
  { timeText }: Pick<Dependencies, 'timeText'>,
) {
  return {
    async listSettlements({ pageSize, pageToken }, context) {
      const { businessId, live } = callingBusiness(context)
      const list = { businessId, live, pageSize, pageToken }
      const { rows, nextPageToken } = await database.read((on) =>
        listSettlements(on, list, undefined),
      )
      const settlements = rows.map((settlement) => toSettlement(settlement, timeText))
      return succeed('Settlements retrieved', { settlements, ...toPageToken(nextPageToken) })
    },
    async getStatement({ from, to, pageSize, pageToken }, context) {
      const { businessId, live } = callingBusiness(context)
      const times = readTimes(timeText, { from, to })
      const period = { fromMs: times.from, toMs: times.to }
      const page = await listEntries(database, { businessId, live, ...period, pageSize, pageToken })
      const data = {
        openingBalance: toBalance(page.opening),
        entries: page.entries.map((entry) => toStatementEntry(entry, timeText)),
        closingBalance: toBalance(page.closing),
        ...toPageToken(page.nextPageToken),
      }
      return succeed('Statement retrieved', data)
    },
  } satisfies Partial<ServiceImpl<typeof ThirdPartyService>>
}

function toSettlement(settlement: Settlement, timeText: TimeText): SettlementMessage {
  const { grossMinor, feesMinor, splitsMinor, completedAtMs } = settlement
  return create(SettlementSchema, {
    settlementId: settlement.id,
    status: settlement.status,
    transactionCount: Number(settlement.transactionCount),
    grossAmount: toMajorNumber(grossMinor),
    fees: toMajorNumber(feesMinor),
    splits: toMajorNumber(splitsMinor),
    netAmount: toMajorNumber(netOf(settlement)),
    currency: CURRENCY,
    cutOffAt: timeText.format(settlement.cutOffAtMs),
    startedAt: timeText.format(settlement.startedAtMs),
    ...(completedAtMs !== undefined && { completedAt: timeText.format(completedAtMs) }),
  })
}

function toStatementEntry(entry: EntryPage['entries'][number], timeText: TimeText): StatementEntry {
  const { kind, subjectId, sessionId } = entry
  return create(StatementEntrySchema, {
    sequence: Number(entry.sequence),
    event: kind,
    bookedAt: timeText.format(entry.bookedAtMs),
    ...(isSettlement(kind) && { settlementId: subjectId }),
    ...(isPayout(kind) && { payoutId: subjectId }),
    ...(sessionId !== '' && { sessionId }),
    pending: toMajorNumber(entry.pendingMinor),
    available: toMajorNumber(entry.availableMinor),
    fees: toMajorNumber(entry.feesMinor),
  })
}
