import type { Pool } from 'pg'
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
import { encodeArrival } from './message.ts'
import { findRecorded } from './queries.ts'
import type { PaymentKey, Resolution, StoredTransaction, StoredUnmatched } from './transaction.ts'
import {
  assignOpen,
  findUnmatched,
  isSessionReturned,
  listOpenUnmatched,
  lockOpenReports,
  lockReported,
  resolutionsOf,
  returnOpen,
} from './unmatched-store.ts'
import { decidePayment } from './variance/record-one-time.ts'
import { CREDITED } from './variance/variance.ts'

interface Dependencies {
  readonly isSimulated: IsSimulated
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
 * Records an unmatched payment for an account, once, and resolves all open reports of the payment.
 * Repeating the call returns the same transaction.
 *
 * Faults: not_found (the payment or the account), account_pending, validation_failed (the account
 * is at another bank, or simulated while the payment is not), payment_resolved.
 */
export async function assignUnmatched(
  { database: { durablePool }, clock, onCommit }: Runtime,
  { isSimulated }: Dependencies,
  { unmatchedPaymentId, businessId, reference, note }: AssignUnmatched,
  actor: Actor,
): Promise<StoredTransaction> {
  const payment = await getUnmatched(durablePool, unmatchedPaymentId)
  const account = await getAccount(durablePool, { businessId, live: true, reference })
  if (!isOpened(account)) {
    throw new Fault('account_pending', 'The account is not open yet and cannot receive payments')
  }
  if (account.bank !== payment.bank) {
    const message = `names an account at ${account.bank}, but the money is at ${payment.bank}`
    throw invalidFields([{ field: 'reference', message }])
  }
  if (!isCreditable(account, isSimulated)) {
    const message = 'names an account that the sandbox opened, but the money is real'
    throw invalidFields([{ field: 'reference', message }])
  }
  const nowMs = clock.now()
  const assigned = await inTransaction(durablePool, async (client) => {
    // Before the reports: recording locks in this order, too.
    const terms = (await lockOneTimeAccounts(client, [account.id])).get(account.id)
    await lockReported(client, [payment])
    const reports = await lockOpenReports(client, payment.id)
    const report = mostFinal(reports, payment.id)
    if (report === undefined || (await isSessionReturned(client, payment))) return undefined
    const assigned = transactionOf(report, account, nowMs, actor)
    const { transaction, decided } = terms
      ? decidePayment(terms, assigned)
      : { transaction: assigned, decided: CREDITED }
    const ids = reports.map(({ id }) => id)
    const row = { ...toRow(transaction, account, nowMs), ...decided }
    if (!(await assignOpen(client, report.id, ids, row, note))) return undefined
    if (decided.isUse) await useAccounts(client, [account.id], nowMs)
    await appendAudit(client, actor, {
      action: 'unmatched_payment.assign',
      targetId: payment.id,
      businessId: account.businessId,
      details: { reference: account.reference, transactionId: transaction.id, note },
    })
    return transaction
  })
  if (assigned === undefined) return assignedBefore(durablePool, payment.id, account)
  onCommit()
  return assigned
}

/**
 * Chooses which report of a payment to record: a final one before a pending one, and among final
 * ones the one that the operator named, then a successful one.
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
  const recordedBy = `assignment:${credentialIdOf(actor)}` as const
  return {
    id: newId('txn', createdAtMs),
    account,
    settled: false,
    createdAtMs,
    ...facts,
    recordedBy,
    variance: undefined,
  }
}

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
        : 'The session of the payment is already recorded or returned',
  )
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
  const returned = await inTransaction(durablePool, async (client) => {
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
  const payment = await getUnmatched(durablePool, unmatchedPaymentId)
  if (payment.resolution === 'RETURNED') return payment
  throw paymentResolved(
    payment.resolution === 'RETURNING'
      ? `The payment is being returned by the payout ${payment.payoutId}`
      : 'The payment is recorded for an account',
  )
}

/** Whether an operator returned the unmatched payment to its payer: it must not be recorded. */
export type IsReturned = (payment: PaymentKey) => Promise<boolean>

/** Creates a function whose look-ups share a statement if they arrive while another one runs. */
export function createIsReturned(pool: Pool): IsReturned {
  const find = createBatcher<PaymentKey, Resolution | undefined>({
    run: (payments) => resolutionsOf(pool, payments),
    itemsMax: 256,
    batchesMax: 2,
    queueMax: 20_000,
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
