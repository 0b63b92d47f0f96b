import type { HandlerContext, ServiceImpl } from '@connectrpc/connect'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import type { CreateAccountCall } from '../accounts/create-account.ts'
import { getAccount } from '../accounts/get-account.ts'
import { checkSplit } from '../accounts/splits/check-split.ts'
import { findSplit } from '../accounts/splits/split-store.ts'
import { callingBusiness } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { type FieldFault, invalidFields } from '../core/errors.ts'
import { endpointKindFaults } from '../events/event-kinds.ts'
import { readLogState } from '../events/log-state.ts'
import { readBusinessLog } from '../events/read-log.ts'
import type { Database } from '../postgres/orm.ts'
import { getBalance } from '../settlement/balances/get-balance.ts'
import {
  createGetShown,
  type ListTransactions,
  listTransactions,
} from '../transactions/find-transactions.ts'
import type { TransactionStatus } from '../transactions/transaction.ts'
import {
  acceptPayment,
  type DecisionDependencies,
  returnPayment,
} from '../transactions/variance/decide-held.ts'
import { findHeldId, listHeldPayments } from '../transactions/variance/list-held.ts'
import { createToEventBody } from '../webhooks/sender/body.ts'
import { toAccountDetails, toBalance, toTransaction, toVirtualAccount } from './message.ts'
import { readSplit } from './splits/message.ts'

/** The number of events in a page if the caller sets no limit. */
const EVENTS_DEFAULT = 100

interface Dependencies {
  readonly database: Database
  readonly timeText: TimeText
  readonly createAccount: CreateAccountCall
  readonly decisions: DecisionDependencies
}

/** The API of external businesses; every call is scoped to its key's business and mode. */
export function createThirdPartyRpc({
  database,
  timeText,
  createAccount,
  decisions,
}: Dependencies): ServiceImpl<typeof ThirdPartyService> {
  const { read } = database
  const getTransaction = createGetShown(read)
  const toEventBody = createToEventBody(timeText)
  return {
    async generateVirtualAccount(request, context) {
      const { businessId, live } = callingBusiness(context)
      const { reference } = request
      const details = toAccountDetails(request, timeText)
      const given = await checkSplit(database.pool, businessId, readSplit(request.split))
      const created = await createAccount({
        ...{ businessId, live, reference, ...details },
        split: given,
      })
      const { account, replayed } = created
      if (replayed) context.responseHeader.set('idempotent-replayed', 'true')
      // It may have been changed since, if an earlier call opened the account.
      const split = replayed ? await findSplit(database.pool, account.id) : given
      const data = toVirtualAccount(account, split, timeText)
      return { status: true, message: 'Account reserved', data }
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
      const key = { businessId, live, reference: request.reference }
      const data = await read(async (on) => {
        const account = await getAccount(on, key)
        return toVirtualAccount(account, await findSplit(on, account.id), timeText)
      })
      return { status: true, message: 'Account retrieved', data }
    },
    async listTransactions(request, context) {
      const { businessId, live } = callingBusiness(context)
      const list: ListTransactions = {
        businessId,
        live,
        reference: request.reference,
        status: (request.status || undefined) as TransactionStatus | undefined,
        ...readPeriod(request, timeText),
        pageSize: request.pageSize,
        pageToken: request.pageToken,
        pageTokenField: 'page_token',
      }
      const { rows, nextPageToken } = await read((on) => listTransactions(on, list))
      const transactions = rows.map((row) => toTransaction(row, timeText))
      return {
        status: true,
        message: 'Transactions retrieved',
        data: { transactions, nextPageToken },
      }
    },
    async acceptPayment(request, context) {
      const id = await heldIdOf(database, request, context)
      const data = toTransaction(await acceptPayment(decisions, id, undefined), timeText)
      return { status: true, message: 'Payment accepted', data }
    },
    async returnPayment(request, context) {
      const transactionId = await heldIdOf(database, request, context)
      const { reason } = request
      const requested = await returnPayment(decisions, { transactionId, reason }, undefined)
      return { status: true, message: 'Return requested', data: toTransaction(requested, timeText) }
    },
    async listHeldPayments({ pageSize, pageToken }, context) {
      const { businessId, live } = callingBusiness(context)
      const list = { businessId, live, pageSize, pageToken, pageTokenField: 'page_token' } as const
      const { rows, nextPageToken } = await read((on) =>
        listHeldPayments(on, { ...list, allowed: undefined, hold: undefined }),
      )
      const transactions = rows.map((row) => toTransaction(row, timeText))
      return {
        status: true,
        message: 'Held payments retrieved',
        data: { transactions, nextPageToken },
      }
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
      return { status: true, message: 'Events retrieved', data }
    },
    async getBalance(_request, context) {
      const { businessId, live } = callingBusiness(context)
      const data = toBalance(await getBalance(database, { businessId, live }))
      return { status: true, message: 'Balance retrieved', data }
    },
  }
}

function heldIdOf(
  { pool }: Database,
  { sessionId, bank }: { readonly sessionId: string; readonly bank: string },
  context: HandlerContext,
): Promise<string> {
  const { businessId, live } = callingBusiness(context)
  return findHeldId(pool, { businessId, live, sessionId, bank: bank as BankCode | '' })
}

function readPeriod(
  request: Record<'from' | 'to' | 'recordedFrom' | 'recordedTo', string>,
  timeText: TimeText,
): Pick<ListTransactions, 'fromMs' | 'toMs' | 'recordedFromMs' | 'recordedToMs'> {
  const faults: FieldFault[] = []
  const read = (field: string, text: string): number | undefined => {
    if (text === '') return undefined
    const time = timeText.parse(text)
    if (time === undefined) {
      faults.push({ field, message: 'must be YYYY-MM-DD HH:MM:SS or RFC 3339' })
    }
    return time
  }
  const period = {
    fromMs: read('from', request.from),
    toMs: read('to', request.to),
    recordedFromMs: read('recorded_from', request.recordedFrom),
    recordedToMs: read('recorded_to', request.recordedTo),
  }
  if (faults.length > 0) throw invalidFields(faults)
  return period
}
