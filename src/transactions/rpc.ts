import type { HandlerContext, ServiceImpl } from '@connectrpc/connect'
import type { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  type ImportedTransaction as ImportedMessage,
  RecordOutcome as OutcomeMessage,
  type RecordPaymentRequest,
  type RecordPaymentResult,
  type TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { toImportResults } from '../accounts/message.ts'
import { actorOf, callingToken, callSourceKey, restrictionOf } from '../auth/caller.ts'
import { inChunks } from '../core/concurrency.ts'
import { Fault, type FieldFault, invalidFields, type Reason } from '../core/errors.ts'
import { paymentTraceOf } from '../core/tracing.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore, type Semaphore } from '../postgres/semaphore.ts'
import { fromTimestamp, isLive } from '../protobuf/values.ts'
import { findReversal, type GetTransaction } from './find-transactions.ts'
import { type ImportedPaymentRow, importTransactions } from './import-transactions.ts'
import { listTransactions, summarizeTransactions } from './list-transactions.ts'
import {
  toHeldState,
  toImportedTransaction,
  toListFilter,
  toRecorderMessage,
  toTokenPayment,
  toTotalsMessage,
  toTransactionMessage,
} from './message.ts'
import type { RecordPayments, RecordTokenPayment } from './record-payment.ts'
import { reverseTransaction } from './reverse-transaction.ts'
import {
  awaitsSettlement,
  canBePaidAt,
  creditedAtOf,
  type RecordedBy,
  type RecordResult,
  type StoredTransaction,
} from './transaction.ts'
import { acceptPayment, completeReturn, returnPayment } from './variance/decide-held.ts'
import { listHeldPayments } from './variance/list-held.ts'

/** How many reversals one instance runs at the same time. */
const REVERSALS_MAX = 4

interface Dependencies {
  readonly recordPayment: RecordTokenPayment
  readonly recordPayments: RecordPayments
  readonly getTransaction: GetTransaction
  /** Returns, for some businesses, when a payment is due for settlement, given when it was recorded. */
  readonly settlesAtOf: (
    businessIds: ReadonlySet<string>,
  ) => Promise<(businessId: string) => ((recordedAtMs: number) => number) | undefined>
  /** Validates one payment of a batch and returns its faults. */
  readonly checkPayment: (payment: RecordPaymentRequest) => readonly FieldFault[]
  /** Validates one payment of an import and returns its faults. */
  readonly checkImported: (payment: ImportedMessage) => readonly FieldFault[]
  /** Throws Fault not_found for an unknown business. */
  readonly aliasOf: (businessId: string) => Promise<string>
}

export function createTransactionRpc(
  runtime: Runtime,
  {
    recordPayment,
    recordPayments,
    getTransaction,
    settlesAtOf,
    checkPayment,
    checkImported,
    aliasOf,
  }: Dependencies,
): ServiceImpl<typeof TransactionService> {
  const { clock } = runtime
  const { orm, read } = runtime.database
  const semaphore = createSemaphore(REVERSALS_MAX)
  return {
    async recordPayment(request, context) {
      const faults = timeFaults(request)
      if (faults.length > 0) throw invalidFields(faults)
      const trace = paymentTraceOf(context.values.get(callSourceKey))
      const payment = toTokenPayment(request, clock.now(), recordedByToken(context), trace)
      const result = await recordPayment(payment)
      return { $typeName: 'inflow.transaction.v1.RecordPaymentResponse', ...toOutcome(result) }
    },
    async recordPayments(request, context) {
      const recordedBy = recordedByToken(context)
      const trace = paymentTraceOf(context.values.get(callSourceKey))
      const nowMs = clock.now()
      const checked = request.payments.map((payment) => {
        return { payment, faults: [...checkPayment(payment), ...timeFaults(payment)] }
      })
      const valid = checked.filter(({ faults }) => faults.length === 0)
      const recorded = await recordPayments(
        valid.map(({ payment }) => toTokenPayment(payment, nowMs, recordedBy, trace)),
      )
      const resultOf = new Map(valid.map(({ payment }, index) => [payment, recorded[index]]))
      return {
        results: checked.map(({ payment, faults }) => toResult(resultOf.get(payment), faults)),
      }
    },
    async getTransaction(request, context) {
      const { businessId, sessionId } = request
      const transaction = await getTransaction({ businessId, live: undefined, sessionId })
      const shown = shownTo(transaction, context)
      if (transaction.status === 'REVERSED') {
        const reversal = await findReversal(orm.em.fork(), transaction.id)
        const reversed = { ...transaction, ...(reversal && { reversal }) }
        return { transaction: toTransactionMessage(reversed, shown) }
      }
      if (!awaitsSettlement(transaction)) {
        return { transaction: toTransactionMessage(transaction, shown) }
      }
      const settlesAt = await settlesAtOf(new Set([businessId]))
      const settlesAtMs = settlesAt(businessId)?.(creditedAtOf(transaction))
      return { transaction: toTransactionMessage(transaction, { settlesAtMs, ...shown }) }
    },
    async listTransactions(request, context) {
      const { pageSize, pageToken } = request
      const filter = { ...toListFilter(request), allowed: restrictionOf(context.values) }
      const { rows, nextPageToken } = await read((on) =>
        listTransactions(on, { ...filter, pageSize, pageToken }),
      )
      const waiting = rows.filter(awaitsSettlement).map(({ account }) => account.businessId)
      const settlesAt = waiting.length > 0 ? await settlesAtOf(new Set(waiting)) : undefined
      const transactions = rows.map((row) => {
        const settledBy = awaitsSettlement(row) ? settlesAt?.(row.account.businessId) : undefined
        return toTransactionMessage(row, {
          settlesAtMs: settledBy?.(creditedAtOf(row)),
          ...shownTo(row, context),
        })
      })
      return { transactions, nextPageToken }
    },
    async summarizeTransactions(request, context) {
      const filter = { ...toListFilter(request), allowed: restrictionOf(context.values) }
      return toTotalsMessage(await read((on) => summarizeTransactions(on, filter)))
    },
    async reverseTransaction(request, context) {
      const actor = actorOf(context)
      const reversed = await reverseTransaction(runtime, semaphore, request, actor)
      return { transaction: toTransactionMessage(reversed) }
    },
    async importTransactions(message, context) {
      const { businessId, validateOnly, transactions } = message
      const rows = await inChunks(transactions, (row): ImportedPaymentRow => {
        const faults = checkImported(row)
        return faults.length > 0 ? { faults } : { payment: toImportedTransaction(row), faults }
      })
      const request = { businessId, live: isLive(message), validateOnly, rows }
      const results = await importTransactions(runtime, { aliasOf }, request, actorOf(context))
      return { results: toImportResults(results) }
    },
  }
}

function recordedByToken(context: HandlerContext): RecordedBy {
  return `token:${callingToken(context).tokenId}`
}

/** Only tokens without a restriction record payments. Hide the recorder's token id from restricted tokens. */
function shownTo({ recordedBy, traceparent }: StoredTransaction, { values }: HandlerContext) {
  const recorder = toRecorderMessage(recordedBy, restrictionOf(values) === undefined)
  return { recorder, traceparent }
}

/** Checked here, because as a rule of the schema it would cost ten times as much as all other rules. */
function timeFaults({ paidAt }: RecordPaymentRequest): readonly FieldFault[] {
  if (paidAt === undefined || canBePaidAt(fromTimestamp(paidAt))) return []
  return [{ field: 'paidAt', message: 'must be a time from 2000 to 2099' }]
}

function toOutcome({ outcome, transaction }: RecordResult) {
  return {
    outcome: OutcomeMessage[outcome],
    transaction: transaction && toTransactionMessage(transaction),
  }
}

/** @param result undefined for a payment with faults, which was not recorded */
function toResult(
  result: RecordResult | Fault | undefined,
  faults: readonly FieldFault[],
): RecordPaymentResult {
  if (result === undefined) {
    const error = faults.map((fault) => `${fault.field} ${fault.message}`).join('; ')
    return refusedResult(error, 'validation_failed')
  }
  if (result instanceof Fault) return refusedResult(result.message, result.reason)
  const outcome = toOutcome(result)
  return { $typeName: RESULT, ...outcome, error: '', reason: '' }
}

const RESULT = 'inflow.transaction.v1.RecordPaymentResult'

function refusedResult(error: string, reason: Reason): RecordPaymentResult {
  const outcome = OutcomeMessage.UNSPECIFIED
  return { $typeName: RESULT, outcome, transaction: undefined, error, reason }
}

/** Held payments, for operators. */
export function createHeldPaymentRpc(
  runtime: Runtime,
  decisions: Semaphore,
): ServiceImpl<typeof HeldPaymentService> {
  return {
    async acceptPayment({ transactionId }, context) {
      const accepted = await acceptPayment(runtime, decisions, transactionId, actorOf(context))
      return { transaction: toTransactionMessage(accepted) }
    },
    async returnPayment(request, context) {
      const requested = await returnPayment(runtime, decisions, request, actorOf(context))
      return { transaction: toTransactionMessage(requested) }
    },
    async completeReturn(request, context) {
      const returned = await completeReturn(runtime, decisions, request, actorOf(context))
      return { transaction: toTransactionMessage(returned) }
    },
    async listHeldPayments(request, context) {
      const { rows, nextPageToken } = await runtime.database.read((on) =>
        listHeldPayments(on, {
          businessId: request.businessId || undefined,
          allowed: restrictionOf(context.values),
          live: request.live,
          hold: toHeldState(request.holdState),
          pageSize: request.pageSize,
          pageToken: request.pageToken,
        }),
      )
      return { transactions: rows.map((row) => toTransactionMessage(row)), nextPageToken }
    },
  }
}
