import type { MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { OpenAccount } from '../accounts/account.ts'
import type { FindOpenAccounts } from '../accounts/open-accounts.ts'
import type { Clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import type { BatchWatch } from '../postgres/batch-watch.ts'
import { createBatcher } from '../postgres/batcher.ts'
import { encodeTransactionEvent, encodeUnmatchedEvent } from './message.ts'
import { findRecorded } from './queries.ts'
import { type PaymentConflict, recordConflict } from './record-conflict.ts'
import {
  type Finalization,
  finalizeTransactions,
  insertTransactions,
  type NewTransaction,
} from './store.ts'
import {
  classifyRepeat,
  type IncomingPayment,
  type RecordOutcome,
  type StoredTransaction,
} from './transaction.ts'
import { insertUnmatched, type NewUnmatched, resolutionOf } from './unmatched/store.ts'
import type { UnmatchedPayment } from './unmatched/unmatched-payment.ts'

/** The result of recording a payment. */
export interface RecordResult {
  readonly outcome: RecordOutcome
  /** The current state of the transaction; undefined when the payment is unmatched. */
  readonly transaction: StoredTransaction | undefined
}

/** Records one payment and resolves after the commit. Recording the same payment again is safe. */
export type RecordPayment = (payment: IncomingPayment) => Promise<RecordResult>

interface Dependencies {
  readonly pool: Pool
  readonly orm: MikroORM
  readonly findOpenAccounts: FindOpenAccounts
  readonly clock: Clock
  /** Called after a commit that added events. */
  readonly onCommit: () => void
  /** Called once for each distinct report of an unmatched payment. */
  readonly onUnmatched: (payment: UnmatchedPayment) => void
  /** Called once for each distinct report that contradicts a recorded payment. */
  readonly onConflict: (conflict: PaymentConflict) => void
  readonly batches?: BatchWatch
}

/**
 * Creates a function that records payments in batches: payments that arrive while a batch is being
 * written share the next statement and its commit.
 *
 * Faults: unavailable, if the queue is full, or if the database does not respond.
 */
export function createRecordPayment(dependencies: Dependencies): RecordPayment {
  return createBatcher<IncomingPayment, RecordResult>({
    run: (payments) => recordBatch(dependencies, payments),
    itemsMax: 256,
    batchesMax: 4,
    queueMax: 50_000,
    watch: dependencies.batches,
  })
}

/** A payment of a batch, with the row that records it if its account is open. */
interface Entry {
  readonly payment: IncomingPayment
  readonly row: NewTransaction | undefined
  readonly stored: StoredTransaction | undefined
}

async function recordBatch(
  dependencies: Dependencies,
  payments: readonly IncomingPayment[],
): Promise<readonly RecordResult[]> {
  const { pool, findOpenAccounts, clock, onCommit } = dependencies
  const accounts = await findOpenAccounts(payments)
  const nowMs = clock.now()
  const entries = payments.map((payment, index) => toEntry(payment, accounts[index], nowMs))
  const rows = entries.flatMap((entry) => entry.row ?? [])
  const recorded = rows.length > 0 ? await insertTransactions(pool, rows) : new Set<string>()
  if (recorded.size > 0) onCommit()
  const rest = entries.filter((entry) => !(entry.row && recorded.has(entry.row.id)))
  const resolved = rest.length > 0 ? await resolveUnrecorded(dependencies, rest) : undefined
  return entries.map(
    (entry) => resolved?.get(entry) ?? { outcome: 'RECORDED', transaction: entry.stored },
  )
}

function toEntry(payment: IncomingPayment, account: OpenAccount | undefined, nowMs: number): Entry {
  if (account === undefined) return { payment, row: undefined, stored: undefined }
  const stored: StoredTransaction = {
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
  }
  const eventId = newId('evt', nowMs)
  const row: NewTransaction = {
    ...payment,
    id: stored.id,
    accountId: account.id,
    businessId: account.businessId,
    live: account.live,
    createdAtMs: nowMs,
    eventId,
    payload:
      payment.status === 'SUCCESS'
        ? encodeTransactionEvent('PAYMENT_NOTIFICATION', stored, eventId, nowMs)
        : null,
  }
  return { payment, row, stored }
}

/** Resolves payments that were not inserted: duplicates, conflicts, final reports or unmatched. */
async function resolveUnrecorded(
  dependencies: Dependencies,
  entries: readonly Entry[],
): Promise<ReadonlyMap<Entry, RecordResult>> {
  const { pool, clock } = dependencies
  const recorded = await findRecorded(pool, entries.map(toKey))
  const results = new Map<Entry, RecordResult>()
  const unmatched: Entry[] = []
  const pending: PendingFinalization[] = []
  for (const [index, entry] of entries.entries()) {
    const found = recorded[index]
    const transaction = found && isSamePayment(entry, found) ? found : undefined
    if (transaction === undefined) {
      unmatched.push(entry)
      results.set(entry, { outcome: 'UNMATCHED', transaction: undefined })
      continue
    }
    const { payment } = entry
    const accountNumber = await expectedAccountNumber(pool, payment, transaction)
    if (classifyRepeat({ ...transaction, accountNumber }, payment) === 'final') {
      pending.push(toFinalization(entry, transaction, accountNumber, clock.now()))
    } else {
      results.set(entry, await resolveDuplicate(dependencies, payment, transaction, accountNumber))
    }
  }
  // Simulated transfers into test accounts are not real money, so they are never stored as
  // unmatched.
  const real = unmatched.filter(({ payment }) => payment.live !== false)
  if (real.length > 0) await recordUnmatched(dependencies, real, clock.now())
  if (pending.length > 0) await finalizePending(dependencies, pending, results)
  return results
}

/**
 * If the report names no mode, a test transaction with another account number must not hide a real
 * payment.
 */
function isSamePayment({ payment, row }: Entry, { account }: StoredTransaction): boolean {
  const known = row !== undefined || payment.live !== undefined || account.live
  return known || account.accountNumber === payment.accountNumber
}

/** If the account is known, the transaction has the mode of the account. */
function toKey({ payment: { bank, sessionId, live }, row }: Entry) {
  return { bank, sessionId, live: row?.live ?? live }
}

async function recordUnmatched(
  { pool, onCommit, onUnmatched }: Dependencies,
  entries: readonly Entry[],
  createdAtMs: number,
): Promise<void> {
  const rows = entries.map(({ payment }): NewUnmatched => {
    const stored = { ...payment, id: newId('unm', createdAtMs), createdAtMs }
    const eventId = newId('evt', createdAtMs)
    return { ...stored, eventId, payload: encodeUnmatchedEvent(stored, eventId) }
  })
  const inserted = await insertUnmatched(pool, rows)
  if (inserted.size === 0) return
  onCommit()
  for (const row of rows) if (inserted.has(row.id)) onUnmatched(row)
}

/** A report that finalizes a pending transaction. */
interface PendingFinalization {
  readonly entry: Entry
  readonly accountNumber: string
  /** The transaction once it is final. */
  readonly transaction: StoredTransaction
  readonly row: Finalization
}

function toFinalization(
  entry: Entry,
  recorded: StoredTransaction,
  accountNumber: string,
  nowMs: number,
): PendingFinalization {
  const { status } = entry.payment
  const transaction: StoredTransaction = { ...recorded, status }
  const eventId = newId('evt', nowMs)
  const payload =
    status === 'SUCCESS'
      ? encodeTransactionEvent('PAYMENT_NOTIFICATION', transaction, eventId, nowMs)
      : null
  const row = { id: recorded.id, status, createdAtMs: nowMs, eventId, payload }
  return { entry, accountNumber, transaction, row }
}

async function finalizePending(
  dependencies: Dependencies,
  pending: readonly PendingFinalization[],
  results: Map<Entry, RecordResult>,
): Promise<void> {
  const { pool, onCommit } = dependencies
  const finalized = await finalizeTransactions(
    pool,
    pending.map(({ row }) => row),
  )
  if (finalized.size > 0) onCommit()
  const rest: PendingFinalization[] = []
  for (const each of pending) {
    const { entry, row, transaction } = each
    if (finalized.has(row.eventId)) results.set(entry, { outcome: 'RECORDED', transaction })
    else rest.push(each)
  }
  if (rest.length === 0) return
  // A concurrent call finalized these after we read them: compare with the state it recorded.
  const now = await findRecorded(
    pool,
    rest.map(({ entry: { payment }, transaction: { account } }) => ({
      ...payment,
      live: account.live,
    })),
  )
  for (const [index, { entry, transaction, accountNumber }] of rest.entries()) {
    const current = now[index] ?? transaction
    results.set(entry, await resolveDuplicate(dependencies, entry.payment, current, accountNumber))
  }
}

/** Resolves a report that does not finalize its transaction: a duplicate or a conflict. */
async function resolveDuplicate(
  dependencies: Dependencies,
  payment: IncomingPayment,
  recorded: StoredTransaction,
  accountNumber: string,
): Promise<RecordResult> {
  if (classifyRepeat({ ...recorded, accountNumber }, payment) !== 'conflict') {
    return { outcome: 'DUPLICATE', transaction: recorded }
  }
  const conflict = { bank: payment.bank, transactionId: recorded.id }
  await recordConflict(dependencies, conflict, payment, dependencies.clock.now())
  return { outcome: 'CONFLICT', transaction: recorded }
}

/**
 * The account number that a report of a recorded payment is expected to have. If an operator
 * assigned the payment to an account, the bank still reports the number that the payer used.
 */
async function expectedAccountNumber(
  pool: Pool,
  payment: IncomingPayment,
  { account: { accountNumber }, amountMinor }: StoredTransaction,
): Promise<string> {
  if (payment.accountNumber === accountNumber || payment.amountMinor !== amountMinor) {
    return accountNumber
  }
  const assigned = (await resolutionOf(pool, payment)) === 'ASSIGNED'
  return assigned ? payment.accountNumber : accountNumber
}
