import type { OpenAccount } from '../accounts/account.ts'
import type { FindOpenAccounts } from '../accounts/open-accounts.ts'
import type { IsSimulated } from '../banks/bank.ts'
import { Fault, type Reason } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { createLogSampler } from '../core/log-sampler.ts'
import { inSpan, type Span } from '../core/tracing.ts'
import {
  type BatchObserver,
  createIsolatingBatcher,
  type ObserveBatches,
} from '../postgres/batcher.ts'
import { afterCommit } from '../postgres/in-transaction.ts'
import { isRetryable } from '../postgres/is-retryable.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type ConflictingReport, recordConflicts } from './conflicts.ts'
import type { PaymentCounter } from './count-payments.ts'
import { encodeArrival } from './message.ts'
import { type Entry, type PaymentCall, resolveUnrecorded } from './resolve-unrecorded.ts'
import { insertTransactions, type NewTransaction } from './store.ts'
import type {
  IncomingPayment,
  RecordResult,
  StoredConflict,
  StoredTransaction,
  TokenPayment,
  UnmatchedPayment,
} from './transaction.ts'
import { recordOneTime } from './variance/record-one-time.ts'

/** Records one payment and resolves after the commit. Recording the same payment again is safe. */
export type RecordPayment = (payment: IncomingPayment) => Promise<RecordResult>

/** As `RecordPayment`, for payments that internal services report; the bank may have to confirm it first. */
export type RecordTokenPayment = (payment: TokenPayment) => Promise<RecordResult>

interface Dependencies {
  readonly findOpenAccounts: FindOpenAccounts
  readonly isSimulated: IsSimulated
  /** Called once for each distinct report of an unmatched payment. */
  readonly onUnmatched: (payment: UnmatchedPayment) => void
  /** Called once for each distinct report that contradicts a recorded payment. */
  readonly onConflict: (conflict: StoredConflict) => void
  /** Observes the batches that record payments. */
  readonly batches?: BatchObserver
  readonly observeBatches?: ObserveBatches
  readonly counter?: PaymentCounter
}

/**
 * Creates a function that records payments in batches: payments that arrive while a batch is being
 * written share the next statement and its commit. A payment that the database refuses fails alone.
 *
 * Faults: unavailable, if the queue is full or the database does not respond; internal, if the payment is
 * refused.
 */
export function createRecordPayment(runtime: Runtime, dependencies: Dependencies): RecordPayment {
  const { log } = runtime
  const { batches, observeBatches, counter } = dependencies
  const observed = observeBatches?.('payments')
  const record = createIsolatingBatcher<IncomingPayment, RecordResult>({
    run: (calls) => inSpan(startBatchSpan(calls), () => recordBatch(runtime, dependencies, calls)),
    itemsMax: 256,
    batchesMax: 4,
    queueMax: 50_000,
    observers: [batches, observed].filter((observer) => observer !== undefined),
  })
  // In batches of their own, so that conflicts hold up no other payments.
  const storeConflict = createIsolatingBatcher<ConflictingReport, true>({
    run: async (calls) => {
      await recordConflicts(
        runtime,
        dependencies,
        calls.map(({ item }) => item),
      )
      for (const call of calls) call.result = true
    },
    itemsMax: 256,
    batchesMax: 1,
    queueMax: 50_000,
    observers: observeBatches && [observeBatches('conflicts')],
  })
  // A line for each payment would flood the log.
  const logPayment = createLogSampler({
    log,
    level: 'debug',
    text: 'payment processed',
    by: 'outcome',
    linesMax: 100,
    totalMax: 200,
    windowMs: 1_000,
  })
  return async (payment) => {
    const { bank, sessionId, recordedBy } = payment
    try {
      const result = await record(payment)
      counter?.processed(bank, result)
      const { outcome } = result
      logPayment(outcome, { bank, sessionId, recordedBy })
      if (result.outcome === 'CONFLICT' && result.transaction) {
        await storeConflict({ bank, transactionId: result.transaction.id, reported: payment })
      }
      return result
    } catch (error) {
      counter?.failed(bank, error)
      if (isRetryable(error) || error instanceof Fault) throw error
      log.error({ bank, sessionId, err: error }, 'a payment could not be recorded')
      throw new Fault('internal', REFUSED, { cause: error })
    }
  }
}

const REFUSED = 'this payment could not be recorded; the log of the service has the cause'

async function recordBatch(
  runtime: Runtime,
  dependencies: Dependencies,
  calls: readonly PaymentCall[],
): Promise<void> {
  const { clock, log, onCommit } = runtime
  const { recordingPool } = runtime.database
  const { findOpenAccounts } = dependencies
  const accounts = await findOpenAccounts(calls.map(({ item }) => item))
  const nowMs = clock.now()
  const entries: Entry[] = []
  const oneTime: OneTimeCall[] = []
  for (const [index, call] of calls.entries()) {
    const account = accounts[index]
    if (account?.terms) oneTime.push(toOneTime(call, account, account.terms.singleUse, nowMs))
    else entries.push(toEntry(call, account, nowMs))
  }
  const rows = entries.flatMap((entry) => entry.row ?? [])
  const recorded =
    rows.length > 0 ? await insertTransactions(recordingPool, rows) : new Set<string>()
  const rest: Entry[] = []
  for (const entry of entries) {
    if (entry.row && recorded.has(entry.row.id)) {
      entry.call.result = { outcome: 'RECORDED', transaction: entry.stored }
    } else rest.push(entry)
  }
  if (recorded.size > 0) afterCommit(log, onCommit)
  // One-time accounts have a statement of their own, so payments into permanent accounts cost nothing extra.
  await recordOneTime(runtime, oneTime, nowMs, ({ call }, { isWritten, transaction, row }) => {
    if (isWritten) call.result = { outcome: 'RECORDED', transaction }
    else rest.push({ call, payment: call.item, row, stored: transaction })
  })
  if (rest.length > 0) await resolveUnrecorded(runtime, dependencies, rest)
}

type OneTimeCall = ReturnType<typeof toOneTime>

function toOneTime(call: PaymentCall, account: OpenAccount, isSingleUse: boolean, nowMs: number) {
  return {
    call,
    accountId: account.id,
    isSingleUse,
    transaction: toTransaction(call.item, account, nowMs),
    toRow: (transaction: StoredTransaction) => toRow(call.item, account.id, transaction, nowMs),
  }
}

function toEntry(call: PaymentCall, account: OpenAccount | undefined, nowMs: number): Entry {
  const { item: payment } = call
  if (account === undefined) return { call, payment, row: undefined, stored: undefined }
  const stored = toTransaction(payment, account, nowMs)
  return { call, payment, row: toRow(payment, account.id, stored, nowMs), stored }
}

function toTransaction(
  payment: IncomingPayment,
  account: OpenAccount,
  nowMs: number,
): StoredTransaction {
  return {
    id: newId('txn', nowMs),
    account,
    bank: payment.bank,
    sessionId: payment.sessionId,
    amountMinor: payment.amountMinor,
    status: payment.status,
    settled: false,
    paidAtMs: payment.paidAtMs,
    createdAtMs: nowMs,
    payer: payment.payer,
    narration: payment.narration,
    recordedBy: payment.recordedBy,
    traceparent: payment.traceparent,
    variance: undefined,
  }
}

function toRow(
  payment: IncomingPayment,
  accountId: string,
  stored: StoredTransaction,
  nowMs: number,
): NewTransaction {
  const { businessId, live } = stored.account
  const eventId = newId('evt', nowMs)
  return {
    ...payment,
    id: stored.id,
    accountId,
    businessId,
    live,
    createdAtMs: nowMs,
    eventId,
    payload: payment.status === 'SUCCESS' ? encodeArrival(stored, eventId, nowMs) : null,
  }
}

/**
 * Begins the span of a statement that several calls share. The span links to all these calls and is a child of the first,
 * so that the trace of a call that is alone in its batch shows everything.
 *
 * @returns undefined unless a call is recorded
 */
function startBatchSpan(calls: readonly PaymentCall[]): Span | undefined {
  const spans = calls.flatMap(({ item: { span } }) => (span?.isRecorded ? [span] : []))
  return spans[0]?.child('INSERT transaction', {
    kind: 'client',
    links: spans.map(({ context }) => context),
    attributes: {
      'db.system.name': 'postgresql',
      'db.operation.name': 'INSERT',
      'db.collection.name': 'transaction',
      'db.operation.batch.size': calls.length,
    },
  })
}

/** Records the payments of one call, and returns their results in the same order: a Fault refuses its payment alone. */
export type RecordPayments = (
  payments: readonly TokenPayment[],
) => Promise<readonly (RecordResult | Fault)[]>

interface ManyDependencies {
  readonly findOpenAccounts: FindOpenAccounts
  readonly recordPayment: RecordTokenPayment
}

/**
 * Creates the function. The results are the same as if the payments were recorded one after the other. A payment
 * waits only for earlier payments on which its result may depend; all other payments share the batches of `recordPayment`.
 *
 * Faults of `recordPayment` that concern no single payment, such as unavailable, fail the whole call.
 */
export function createRecordPayments(dependencies: ManyDependencies): RecordPayments {
  const { findOpenAccounts, recordPayment } = dependencies
  const recordOne = async (payment: TokenPayment): Promise<RecordResult | Fault> => {
    try {
      return await recordPayment(payment)
    } catch (error) {
      if (error instanceof Fault && REFUSALS.has(error.reason)) return error
      throw error
    }
  }
  const recordAfter = async (
    before: readonly Promise<RecordResult | Fault>[],
    payment: TokenPayment,
  ): Promise<RecordResult | Fault> => {
    const results = await Promise.all(before)
    // If the bank was unavailable for an earlier report, do not wait for the bank again.
    return results.find(isUnavailable) ?? recordOne(payment)
  }
  return async (payments) => {
    const accounts = await findOpenAccounts(payments)
    /** By key: the result that the next payment with the key waits for. */
    const turns = new Map<string, Promise<RecordResult | Fault>>()
    const results = payments.map((payment, index) => {
      const account = accounts[index]
      const keys = reportKeysOf(payment, account)
      const useKey = account?.terms?.singleUse ? account.id : ''
      const before = [...keys, useKey].flatMap((key) => turns.get(key) ?? [])
      const result = before.length === 0 ? recordOne(payment) : recordAfter(before, payment)
      for (const key of keys) turns.set(key, turnAfter(turns.get(key), result))
      // The first payment into a single-use account uses it up.
      if (useKey !== '') turns.set(useKey, result)
      return result
    })
    return Promise.all(results)
  }
}

/** Once a payment is final, reports of it change nothing, and their order does not matter. */
function turnAfter(
  before: Promise<RecordResult | Fault> | undefined,
  result: Promise<RecordResult | Fault>,
): Promise<RecordResult | Fault> {
  if (before === undefined) return result
  const turn = before.then((earlier) => (isFinal(earlier) ? earlier : result))
  // The call reports this error by the result itself.
  turn.catch(() => undefined)
  return turn
}

function isFinal(result: RecordResult | Fault): boolean {
  if (result instanceof Fault || result.transaction === undefined) return false
  return result.transaction.status !== 'PENDING'
}

/** Reasons that refuse one payment, and none of the others. */
const REFUSALS: ReadonlySet<Reason> = new Set([
  'internal',
  'payment_unconfirmed',
  'bank_key_required',
  'bank_unavailable',
])

function isUnavailable(result: RecordResult | Fault): result is Fault {
  return result instanceof Fault && result.reason === 'bank_unavailable'
}

/**
 * Payments with a key in common may be reports of one payment: the first one counts. Sessions of live and of test
 * mode are separate. A report that names no open account may be of a live payment.
 */
function reportKeysOf(
  { bank, sessionId, bankKey }: TokenPayment,
  account: OpenAccount | undefined,
): readonly string[] {
  const mode = account?.live === false ? 'test' : 'live'
  const session = `${mode} ${bank} session ${sessionId}`
  return bankKey === '' ? [session] : [session, `${mode} ${bank} key ${bankKey}`]
}
