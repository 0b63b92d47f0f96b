import type { Pool } from 'pg'
import type { OpenAccount } from '../accounts/account.ts'
import type { FindOpenAccounts } from '../accounts/open-accounts.ts'
import type { Clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { createBatcher } from '../postgres/batcher.ts'
import { encodeTransactionEvent, encodeUnmatchedEvent } from './message.ts'
import { findRecorded } from './queries.ts'
import { type Difference, recordConflict } from './record-conflict.ts'
import {
  type Finish,
  finishTransactions,
  insertTransactions,
  type NewTransaction,
} from './store.ts'
import {
  classifyRepeat,
  type IncomingPayment,
  type RecordOutcome,
  type StoredTransaction,
} from './transaction.ts'
import type { UnmatchedPayment } from './unmatched-payment.ts'
import { insertUnmatched, type NewUnmatched, resolutionOf } from './unmatched-store.ts'

/** What became of a payment. */
export interface RecordResult {
  readonly outcome: RecordOutcome
  /** As it now stands; undefined when unmatched. */
  readonly transaction: StoredTransaction | undefined
}

/** Records one payment. It resolves after the commit; recording a payment again is safe. */
export type RecordPayment = (payment: IncomingPayment) => Promise<RecordResult>

interface Dependencies {
  readonly pool: Pool
  readonly findOpenAccounts: FindOpenAccounts
  readonly clock: Clock
  /** Called after a commit that added events. */
  readonly onCommit: () => void
  /** Told of each payment that is nobody's, once for each telling of it. */
  readonly unmatched: (payment: UnmatchedPayment) => void
  /** Told of each payment that contradicts a recorded one, once for each telling of it. */
  readonly differs: (difference: Difference) => void
}

/**
 * Payments that come in while others are being written share the next statement and its commit.
 *
 * Faults: unavailable, when too many wait.
 */
export function createRecordPayment(dependencies: Dependencies): RecordPayment {
  return createBatcher<IncomingPayment, RecordResult>({
    run: (payments) => recordBatch(dependencies, payments),
    itemsMax: 256,
    batchesMax: 4,
    queueMax: 50_000,
  })
}

/** A payment of a batch, and the row that would record it when its account is open. */
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
  const others = entries.filter((entry) => !(entry.row && recorded.has(entry.row.id)))
  const known = others.length > 0 ? await settleOthers(dependencies, others) : undefined
  return entries.map(
    (entry) => known?.get(entry) ?? { outcome: 'RECORDED', transaction: entry.stored },
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

/** Finds out about the payments that were not recorded: their sessions are known, or nobody's. */
async function settleOthers(
  dependencies: Dependencies,
  entries: readonly Entry[],
): Promise<ReadonlyMap<Entry, RecordResult>> {
  const { pool, clock } = dependencies
  const recorded = await findRecorded(pool, entries.map(toKey))
  const results = new Map<Entry, RecordResult>()
  const unmatched: Entry[] = []
  const finals: Final[] = []
  for (const [index, entry] of entries.entries()) {
    const found = recorded[index]
    const transaction = found && isOf(entry, found) ? found : undefined
    if (transaction === undefined) {
      unmatched.push(entry)
      results.set(entry, { outcome: 'UNMATCHED', transaction: undefined })
      continue
    }
    const { payment } = entry
    const accountNumber = await toldNumber(pool, payment, transaction)
    if (classifyRepeat({ ...transaction, accountNumber }, payment) === 'final') {
      finals.push(toFinal(entry, transaction, accountNumber, clock.now()))
    } else {
      results.set(entry, await settleRepeat(dependencies, payment, transaction, accountNumber))
    }
  }
  // What the sandbox makes up for test accounts is nobody's money.
  const kept = unmatched.filter(({ payment }) => payment.live !== false)
  if (kept.length > 0) await keepUnmatched(dependencies, kept, clock.now())
  if (finals.length > 0) await settleFinals(dependencies, finals, results)
  return results
}

/** Where either mode will do, a test transaction of another number must not hide a real payment. */
function isOf({ payment, row }: Entry, { account }: StoredTransaction): boolean {
  const known = row !== undefined || payment.live !== undefined || account.live
  return known || account.accountNumber === payment.accountNumber
}

/** Where the account is known, its mode is the transaction's. */
function toKey({ payment: { bank, sessionId, live }, row }: Entry) {
  return { bank, sessionId, live: row?.live ?? live }
}

async function keepUnmatched(
  { pool, onCommit, unmatched }: Dependencies,
  entries: readonly Entry[],
  createdAtMs: number,
): Promise<void> {
  const rows = entries.map(({ payment }): NewUnmatched => {
    const kept = { ...payment, id: newId('unm', createdAtMs), createdAtMs }
    const eventId = newId('evt', createdAtMs)
    return { ...kept, eventId, payload: encodeUnmatchedEvent(kept, eventId) }
  })
  const fresh = await insertUnmatched(pool, rows)
  if (fresh.size === 0) return
  onCommit()
  for (const row of rows) if (fresh.has(row.id)) unmatched(row)
}

/** A repeat that makes its transaction final. */
interface Final {
  readonly entry: Entry
  readonly accountNumber: string
  /** As it stands then. */
  readonly transaction: StoredTransaction
  readonly row: Finish
}

function toFinal(
  entry: Entry,
  recorded: StoredTransaction,
  accountNumber: string,
  nowMs: number,
): Final {
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

async function settleFinals(
  dependencies: Dependencies,
  finals: readonly Final[],
  results: Map<Entry, RecordResult>,
): Promise<void> {
  const { pool, onCommit } = dependencies
  const finished = await finishTransactions(
    pool,
    finals.map((final) => final.row),
  )
  if (finished.size > 0) onCommit()
  const others: Final[] = []
  for (const final of finals) {
    const { entry, row, transaction } = final
    if (finished.has(row.eventId)) results.set(entry, { outcome: 'RECORDED', transaction })
    else others.push(final)
  }
  if (others.length === 0) return
  // Another call made it final between our look and our move; what it says is what counts now.
  const now = await findRecorded(
    pool,
    others.map(({ entry: { payment }, transaction: { account } }) => ({
      ...payment,
      live: account.live,
    })),
  )
  for (const [index, { entry, transaction, accountNumber }] of others.entries()) {
    const settled = now[index] ?? transaction
    results.set(entry, await settleRepeat(dependencies, entry.payment, settled, accountNumber))
  }
}

/** A repeat of a transaction that it does not make final. */
async function settleRepeat(
  dependencies: Dependencies,
  payment: IncomingPayment,
  recorded: StoredTransaction,
  accountNumber: string,
): Promise<RecordResult> {
  if (classifyRepeat({ ...recorded, accountNumber }, payment) !== 'conflict') {
    return { outcome: 'DUPLICATE', transaction: recorded }
  }
  const difference = { bank: payment.bank, transactionId: recorded.id }
  await recordConflict(dependencies, difference, payment, dependencies.clock.now())
  return { outcome: 'CONFLICT', transaction: recorded }
}

/**
 * The account number that tellings of a recorded payment are expected to have. One that was assigned
 * to an account by a person is told with the number that it was paid to.
 */
async function toldNumber(
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
