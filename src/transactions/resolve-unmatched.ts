import type { Pool, PoolClient } from 'pg'
import { isCreditable, isOpened, type OpenAccount } from '../accounts/account.ts'
import { getAccount } from '../accounts/get-account.ts'
import { lockOneTimeAccounts, useAccounts } from '../accounts/one-time-store.ts'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { type Actor, credentialIdOf } from '../auth/caller.ts'
import type { BankCode, IsSimulated } from '../banks/bank.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { createBatcher } from '../postgres/batcher.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { cutScan, readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { recordConflicts } from './conflicts.ts'
import { encodeArrival } from './message.ts'
import { findRecorded } from './queries.ts'
import type { RecordPayment } from './record-payment.ts'
import {
  classifyRepeat,
  type PaymentKey,
  type Resolution,
  type StoredConflict,
  type StoredTransaction,
  type StoredUnmatched,
} from './transaction.ts'
import {
  assignOpen,
  attachOpen,
  findUnmatched,
  isSessionReturned,
  listOpenUnmatched,
  lockOpenReports,
  lockReported,
  lockReports,
  resolutionsOf,
  returnOpen,
} from './unmatched-store.ts'
import { decidePayment } from './variance/record-one-time.ts'
import { CREDITED } from './variance/variance.ts'

interface Dependencies {
  readonly isSimulated: IsSimulated
  readonly recordPayment: RecordPayment
  /** Called once for each distinct report that contradicts a recorded payment. */
  readonly onConflict: (conflict: StoredConflict) => void
}

/** One page of the unmatched payments that wait for an operator's decision, newest first. */
export async function listUnmatched(
  pool: Queryable,
  request: {
    readonly bank: BankCode | undefined
    /** Empty: any. */
    readonly accountNumber: string
    readonly pageSize: number
    readonly pageToken: string
  },
) {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { payments, readUpTo } = await listOpenUnmatched(
    pool,
    { ...request, order: 'newest' },
    page.after?.[0],
    page.limit + 1,
  )
  return cutScan(payments, page, (payment) => [payment.id], readUpTo && [readUpTo])
}

interface AssignUnmatched {
  readonly unmatchedPaymentId: string
  readonly businessId: string
  /** The reference that Inflow returned for the account, or the business's own. */
  readonly reference: string
  readonly note: string
}

/**
 * Records an unmatched payment for an account, once, and resolves all open reports of the payment; a report that contradicts
 * the recorded one becomes a conflict. Repeating the call returns the same transaction. If the session is already recorded
 * for this account, returns that transaction and credits nothing, except that a final report finalizes a PENDING transaction.
 *
 * Faults: not_found (the payment or the account), account_pending, validation_failed (the account
 * is at another bank, or simulated while the payment is not), payment_resolved.
 */
export async function assignUnmatched(
  runtime: Runtime,
  dependencies: Dependencies,
  { unmatchedPaymentId, businessId, reference, note }: AssignUnmatched,
  actor: Actor,
): Promise<StoredTransaction> {
  const { clock, onCommit } = runtime
  const { durablePool } = runtime.database
  const payment = await getUnmatched(durablePool, unmatchedPaymentId)
  const account = await getAccount(durablePool, { businessId, live: true, reference })
  if (!isOpened(account)) {
    throw new Fault('account_pending', 'The account is not open yet and cannot receive payments')
  }
  if (account.bank !== payment.bank) {
    const message = `names an account at ${account.bank}, but the money is at ${payment.bank}`
    throw invalidFields([{ field: 'reference', message }])
  }
  if (!isCreditable(account, dependencies.isSimulated)) {
    const message = 'names an account that the sandbox opened, but the money is real'
    throw invalidFields([{ field: 'reference', message }])
  }
  const nowMs = clock.now()
  const assigned = await inTransaction(durablePool, async (client) => {
    // The account is locked before the reports, because recording locks in this order, too.
    const terms = (await lockOneTimeAccounts(client, [account.id])).get(account.id)
    await lockReported(client, [payment])
    const reports = await lockOpenReports(client, payment.id)
    const report = mostFinal(reports, payment.id)
    if (report === undefined || (await isSessionReturned(client, payment))) return undefined
    const assigned = transactionOf(report, account, nowMs, actor)
    const { transaction, decided } = terms
      ? decidePayment(terms, assigned)
      : { transaction: assigned, decided: CREDITED }
    const before = { ...transaction, accountNumber: payment.accountNumber }
    const conflicting = reports.filter((each) => classifyRepeat(before, each) === 'conflict')
    const ids = reports.filter((each) => !conflicting.includes(each)).map(({ id }) => id)
    const row = { ...toRow(transaction, account, nowMs), ...decided }
    if (!(await assignOpen(client, report.id, ids, row, note))) return undefined
    if (decided.isUse) await useAccounts(client, [account.id], nowMs)
    await auditAssignment(client, payment.id, transaction, note, actor)
    return { transaction, conflicting: conflicting[0] }
  })
  if (assigned === undefined) {
    const [recorded] = await findRecorded(durablePool, [payment])
    if (recorded?.accountId === account.id) {
      await attachToRecorded(runtime, dependencies, payment, recorded, note, actor)
    }
    return assignedBefore(durablePool, payment.id, account)
  }
  onCommit()
  const { transaction, conflicting } = assigned
  // If this fails, the report stays listed.
  if (conflicting) {
    await attachToRecorded(runtime, dependencies, conflicting, transaction, note, actor)
  }
  return transaction
}

/**
 * Resolves the open reports of a payment whose session is recorded for the account that the operator named, with other
 * facts. A final report finalizes a PENDING transaction. Reports that contradict the transaction wait as conflicts.
 */
async function attachToRecorded(
  runtime: Runtime,
  dependencies: Dependencies,
  payment: StoredUnmatched,
  recorded: StoredTransaction,
  note: string,
  actor: Actor,
): Promise<void> {
  const { durablePool } = runtime.database
  const { bank, accountNumber } = payment
  const reports = await lockOpenReports(durablePool, payment.id)
  const before = { ...recorded, accountNumber }
  const final = mostFinal(
    [payment, ...reports].filter((report) => classifyRepeat(before, report) === 'final'),
    payment.id,
  )
  const after = { ...before, status: final?.status ?? recorded.status }
  const conflicting = reports.filter((report) => classifyRepeat(after, report) === 'conflict')
  // The conflicts come first: a report is resolved once they are stored.
  if (conflicting.length > 0) {
    const conflicts = conflicting.map((reported) => ({
      bank,
      transactionId: recorded.id,
      reported,
    }))
    await recordConflicts(runtime, dependencies, conflicts)
  }
  const isAttached = await inTransaction(durablePool, async (client) => {
    await lockReported(client, [payment])
    if (await isSessionReturned(client, payment)) return false
    const nowMs = runtime.clock.now()
    if (!(await attachOpen(client, payment.id, recorded.id, note, nowMs))) return false
    await auditAssignment(client, payment.id, recorded, note, actor)
    return true
  })
  // The report is attached first: before, its account number is another one. A repeat of the call catches up after a crash.
  if (final && (isAttached || payment.transactionId === recorded.id)) {
    await dependencies.recordPayment({ ...final, recordedBy: recordedByOf(actor) })
  }
}

function auditAssignment(
  client: PoolClient,
  targetId: string,
  { id: transactionId, account: { businessId, reference } }: StoredTransaction,
  note: string,
  actor: Actor,
): Promise<void> {
  const details = { reference, transactionId, note }
  return appendAudit(client, actor, {
    action: 'unmatched_payment.assign',
    targetId,
    businessId,
    details,
  })
}

/**
 * Chooses which report of a payment to record. A final report precedes a pending report. Among final reports, the report
 * that the operator named comes first, then a successful report.
 */
function mostFinal(
  reports: readonly StoredUnmatched[],
  namedId: string,
): StoredUnmatched | undefined {
  const final = reports.filter(({ status }) => status !== 'PENDING')
  return (
    final.find(({ id }) => id === namedId) ??
    final.find(({ status }) => status === 'SUCCESS') ??
    final[0] ??
    reports[0]
  )
}

function toRow(transaction: StoredTransaction, account: OpenAccount, createdAtMs: number) {
  const eventId = newId('evt', createdAtMs)
  const payload =
    transaction.status === 'SUCCESS' ? encodeArrival(transaction, eventId, createdAtMs) : null
  const { id: accountId, businessId } = account
  const { id, recordedBy } = transaction
  return { id, accountId, businessId, createdAtMs, eventId, payload, recordedBy }
}

function transactionOf(
  payment: StoredUnmatched,
  account: OpenAccount,
  createdAtMs: number,
  actor: Actor,
): StoredTransaction {
  const { bank, sessionId, amountMinor, status, paidAtMs, payer, narration } = payment
  const facts = { bank, sessionId, amountMinor, status, paidAtMs, payer, narration }
  return {
    id: newId('txn', createdAtMs),
    account,
    settled: false,
    createdAtMs,
    ...facts,
    recordedBy: recordedByOf(actor),
    variance: undefined,
  }
}

const recordedByOf = (actor: Actor) => `assignment:${credentialIdOf(actor)}` as const

/** The response to a repeated call: the transaction, if it was recorded for this account. */
async function assignedBefore(
  pool: Pool,
  id: string,
  account: OpenAccount,
): Promise<StoredTransaction> {
  const payment = await getUnmatched(pool, id)
  const [recorded] = await findRecorded(pool, [payment])
  if (recorded && payment.transactionId === recorded.id) {
    if (recorded.account.reference === account.reference) return recorded
    throw paymentResolved('The payment was assigned to another account')
  }
  throw paymentResolved(
    payment.resolution === 'RETURNED'
      ? 'The payment was returned to its payer'
      : payment.resolution === 'RETURNING'
        ? `The payment is being returned by the payout ${payment.payoutId}`
        : await sessionResolved(pool, payment, recorded),
  )
}

/** Why an open payment cannot be resolved. @param recorded the transaction of its session */
async function sessionResolved(
  pool: Pool,
  payment: StoredUnmatched,
  recorded: StoredTransaction | undefined,
): Promise<string> {
  if (!recorded) return 'Another report of the session is returned, or is being returned'
  const text = `The session is recorded for the account ${recorded.account.reference}`
  return (await isSessionReturned(pool, payment))
    ? `${text}, and another report of it is returned, or is being returned`
    : `${text}: assign the payment to it`
}

/**
 * Records that an unmatched payment was returned to its payer outside Inflow.
 *
 * Faults: not_found, payment_resolved.
 */
export async function returnUnmatched(
  { database: { durablePool }, clock }: Runtime,
  { unmatchedPaymentId, note }: Pick<AssignUnmatched, 'unmatchedPaymentId' | 'note'>,
  actor: Actor,
): Promise<StoredUnmatched> {
  const payment = await getUnmatched(durablePool, unmatchedPaymentId)
  const returned = await inTransaction(durablePool, async (client) => {
    await lockReported(client, [payment])
    const row = await returnOpen(client, unmatchedPaymentId, note, clock.now())
    if (row) {
      await appendAudit(client, actor, {
        action: 'unmatched_payment.return',
        targetId: unmatchedPaymentId,
        details: { note },
      })
    }
    return row
  })
  if (returned) return returned
  const now = await getUnmatched(durablePool, unmatchedPaymentId)
  if (now.resolution === 'RETURNED') return now
  const [recorded] = await findRecorded(durablePool, [now])
  throw paymentResolved(
    now.resolution === 'RETURNING'
      ? `The payment is being returned by the payout ${now.payoutId}`
      : now.resolution === 'ASSIGNED'
        ? 'The payment is recorded for an account'
        : await sessionResolved(durablePool, now, recorded),
  )
}

/** The note of the reports whose payment its bank has reversed. */
const REVERSED_NOTE = 'reversed by the bank'

/**
 * Records that its bank has reversed an unmatched payment, so that no operator assigns or returns it. A repeated call is
 * safe.
 *
 * @returns `refused`: why it cannot be resolved; 'not recorded': there is no open report of it
 */
export async function reverseUnmatched(
  { database: { durablePool }, clock }: Runtime,
  key: Pick<PaymentKey, 'bank' | 'sessionId'>,
  actor: Actor,
): Promise<'reversed' | 'already reversed' | 'not recorded' | { readonly refused: string }> {
  return inTransaction(durablePool, async (client) => {
    await lockReported(client, [key])
    const reports = await lockReports(client, key)
    const returning = reports.find(({ payoutId }) => payoutId !== undefined)
    if (returning) {
      return { refused: `${returning.id}: the payout ${returning.payoutId} returns it` }
    }
    const returned: StoredUnmatched[] = []
    for (const { id } of reports) {
      const row = await returnOpen(client, id, REVERSED_NOTE, clock.now())
      if (row) returned.push(row)
    }
    for (const { id: targetId, note } of returned) {
      await appendAudit(client, actor, {
        action: 'unmatched_payment.return',
        targetId,
        details: { note },
      })
    }
    if (returned.length > 0) return 'reversed'
    const isRepeated = reports.some(({ note }) => note === REVERSED_NOTE)
    return isRepeated ? 'already reversed' : 'not recorded'
  })
}

/** Whether an operator returned the unmatched payment to its payer: it must not be recorded. */
export type IsReturned = (payment: PaymentKey) => Promise<boolean>

/** Creates a function whose look-ups share a statement if they arrive while another one runs. */
export function createIsReturned(pool: Pool): IsReturned {
  const find = createBatcher<PaymentKey, Resolution | undefined>({
    run: (payments) => resolutionsOf(pool, payments),
  })
  return async (payment) => (await find(payment)) === 'RETURNED'
}

/** @throws Fault not_found */
export async function getUnmatched(pool: Pool, id: string): Promise<StoredUnmatched> {
  const payment = await findUnmatched(pool, id)
  if (payment === undefined) throw new Fault('not_found', 'There is no such unmatched payment')
  return payment
}

export function paymentResolved(text: string): Fault {
  return new Fault('payment_resolved', text)
}
