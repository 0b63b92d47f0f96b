import type { Pool } from 'pg'
import { isCreditable } from '../accounts/account.ts'
import type { IsSimulated } from '../banks/bank.ts'
import { assert } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import type { Call } from '../postgres/batcher.ts'
import { afterCommit } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { encodeArrival, encodeUnmatchedEvent } from './message.ts'
import { findRecorded, type RecordedTransaction } from './queries.ts'
import { type Finalization, finalizeTransactions, type NewTransaction } from './store.ts'
import type { Payer, UnmatchedPayment } from './transaction.ts'
import {
  classifyRepeat,
  type IncomingPayment,
  type RecordResult,
  type StoredTransaction,
} from './transaction.ts'
import { insertUnmatched, type NewUnmatched, resolutionsOf } from './unmatched-store.ts'
import { finalizeOneTimePayments } from './variance/record-one-time.ts'

interface Dependencies {
  readonly isSimulated: IsSimulated
  readonly onUnmatched: (payment: UnmatchedPayment) => void
}

/** A payment of a batch; its result is set once it is committed. */
export type PaymentCall = Call<IncomingPayment, RecordResult>

/** A payment of a batch, with the row that records it if its account is open. */
export interface Entry {
  readonly call: PaymentCall
  readonly payment: IncomingPayment
  readonly row: NewTransaction | undefined
  readonly stored: StoredTransaction | undefined
}

/** Resolves payments that were not inserted: duplicates, conflicts, final reports or unmatched. */
export async function resolveUnrecorded(
  runtime: Runtime,
  dependencies: Dependencies,
  entries: readonly Entry[],
): Promise<void> {
  const { clock } = runtime
  const { recordingPool } = runtime.database
  const { isSimulated } = dependencies
  const unmatched: Entry[] = []
  const repeats: RepeatEntry[] = []
  for (const { entry, found } of await findReported(recordingPool, entries)) {
    if (found && isSamePayment(entry, found)) {
      if (isCreditable({ ...found, live: found.account.live }, isSimulated)) {
        repeats.push({ entry, transaction: found })
      } else entry.call.result = { outcome: 'CONFLICT', transaction: found }
    }
    // Simulated transfers into test accounts are not real money, so they are never stored as
    // unmatched.
    else if (entry.payment.live === false) entry.call.result = NOT_MATCHED
    else unmatched.push(entry)
  }
  if (unmatched.length > 0) {
    const assigned = await recordUnmatched(runtime, dependencies, unmatched, clock.now())
    const found = await findRecorded(recordingPool, assigned.map(toKey))
    for (const [index, entry] of assigned.entries()) {
      const transaction = found[index]
      assert(transaction, 'an assigned payment is recorded')
      repeats.push({ entry, transaction })
    }
  }
  const pending: PendingFinalization[] = []
  const numbers = await expectedAccountNumbers(recordingPool, repeats)
  for (const [index, { entry, transaction }] of repeats.entries()) {
    const accountNumber = numbers[index] as string
    if (classifyRepeat({ ...transaction, accountNumber }, entry.payment) === 'final') {
      pending.push(toFinalization(entry, transaction, accountNumber))
    } else entry.call.result = toRepeated(entry.payment, transaction, accountNumber)
  }
  if (pending.length > 0) await finalizePending(runtime, pending, clock.now())
}

interface Reported {
  readonly entry: Entry
  /** Undefined: its session is not recorded. */
  readonly found: RecordedTransaction | undefined
}

/**
 * Finds the transactions of reports. An account that was open when it was looked up may be closed by now: its report
 * then counts as a report that names no open account.
 */
async function findReported(pool: Pool, entries: readonly Entry[]): Promise<readonly Reported[]> {
  const found = await findRecorded(pool, entries.map(toKey))
  const reported = entries.map((entry, index): Reported => {
    const isClosed =
      found[index] === undefined && entry.row !== undefined && entry.payment.live === undefined
    const now = isClosed ? { ...entry, row: undefined, stored: undefined } : entry
    return { entry: now, found: found[index] }
  })
  const closed = reported.filter(({ entry }, index) => entry !== entries[index])
  if (closed.length === 0) return reported
  const again = await findRecorded(
    pool,
    closed.map(({ entry }) => toKey(entry)),
  )
  const foundAgain = new Map(closed.map(({ entry }, index) => [entry, again[index]]))
  return reported.map(({ entry, found }) => ({ entry, found: found ?? foundAgain.get(entry) }))
}

const NOT_MATCHED: RecordResult = { outcome: 'UNMATCHED', transaction: undefined }

type Recorded = StoredTransaction & { readonly accountId: string }

/** A report whose session is recorded. */
interface RepeatEntry {
  readonly entry: Entry
  readonly transaction: Recorded
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

/** Stores reports of unmatched payments. @returns those whose payment an operator has assigned in the meantime */
async function recordUnmatched(
  { database: { recordingPool }, log, onCommit }: Runtime,
  { onUnmatched }: Dependencies,
  entries: readonly Entry[],
  createdAtMs: number,
): Promise<readonly Entry[]> {
  const rows = entries.map(({ payment }): NewUnmatched => {
    const stored = { ...payment, id: newId('unm', createdAtMs), createdAtMs }
    const eventId = newId('evt', createdAtMs)
    return { ...stored, eventId, payload: encodeUnmatchedEvent(stored, eventId) }
  })
  const { inserted, assigned } = await insertUnmatched(recordingPool, rows)
  const isAssigned = (_: Entry, index: number) => assigned.has(rows[index]?.id ?? '')
  for (const [index, entry] of entries.entries()) {
    if (!isAssigned(entry, index)) entry.call.result = NOT_MATCHED
  }
  if (inserted.size > 0) afterCommit(log, onCommit)
  for (const row of rows) if (inserted.has(row.id)) afterCommit(log, () => onUnmatched(row))
  return entries.filter(isAssigned)
}

/** A report that finalizes a pending transaction. */
interface PendingFinalization {
  readonly entry: Entry
  readonly accountNumber: string
  /** The transaction once it is final. */
  readonly transaction: Recorded
}

function toFinalization(
  entry: Entry,
  recorded: Recorded,
  accountNumber: string,
): PendingFinalization {
  const { status, recordedBy, traceparent: reported, payer, narration } = entry.payment
  const transaction: Recorded = {
    ...recorded,
    status,
    recordedBy,
    payer: joinPayers(recorded.payer, payer),
    narration: narration || recorded.narration,
    // Keep the original traceparent.
    traceparent: recorded.traceparent ?? reported,
  }
  return { entry, accountNumber, transaction }
}

/** What the final report does not state of the payer is as before; another account may be at another bank. */
function joinPayers(before: Payer, reported: Payer): Payer {
  const name = reported.name || before.name
  const isOtherAccount =
    reported.accountNumber !== '' &&
    before.accountNumber !== '' &&
    reported.accountNumber !== before.accountNumber
  if (isOtherAccount) return { ...reported, name }
  return {
    name,
    accountNumber: reported.accountNumber || before.accountNumber,
    bankCode: reported.bankCode || before.bankCode,
    bankName: reported.bankName || before.bankName,
  }
}

function toRow(
  { payment: { status, recordedBy } }: Entry,
  transaction: StoredTransaction,
  nowMs: number,
): Finalization {
  const { id, payer, narration, traceparent } = transaction
  const eventId = newId('evt', nowMs)
  const payload = status === 'SUCCESS' ? encodeArrival(transaction, eventId, nowMs) : null
  return {
    id,
    status,
    createdAtMs: nowMs,
    payer,
    narration,
    eventId,
    payload,
    recordedBy,
    traceparent,
  }
}

/** Finalizes payments into permanent accounts in one statement. @returns the payments that another call finalized */
async function finalizePermanent(
  { database: { recordingPool }, log, onCommit }: Runtime,
  pending: readonly PendingFinalization[],
  nowMs: number,
): Promise<readonly PendingFinalization[]> {
  if (pending.length === 0) return []
  const rows = pending.map(({ entry, transaction }) => toRow(entry, transaction, nowMs))
  const finalized = await finalizeTransactions(recordingPool, rows)
  const rest: PendingFinalization[] = []
  for (const [index, each] of pending.entries()) {
    const { entry, transaction } = each
    if (finalized.has(rows[index]?.eventId ?? '')) {
      entry.call.result = { outcome: 'RECORDED', transaction }
    } else rest.push(each)
  }
  if (finalized.size > 0) afterCommit(log, onCommit)
  return rest
}

async function finalizePending(
  runtime: Runtime,
  pending: readonly PendingFinalization[],
  nowMs: number,
): Promise<void> {
  const { recordingPool } = runtime.database
  const isOneTime = ({ transaction }: PendingFinalization) =>
    transaction.account.terms !== undefined
  const permanent = pending.filter((each) => !isOneTime(each))
  const rest = [...(await finalizePermanent(runtime, permanent, nowMs))]
  const oneTime = pending.filter(isOneTime).map((each) => ({
    ...each,
    accountId: each.transaction.accountId,
    isSingleUse: true,
    toRow: (transaction: StoredTransaction) => toRow(each.entry, transaction, nowMs),
  }))
  await finalizeOneTimePayments(runtime, oneTime, nowMs, (each, written) => {
    const { transaction } = written
    if (written.isWritten) each.entry.call.result = { outcome: 'RECORDED', transaction }
    else rest.push(each)
  })
  if (rest.length === 0) return
  // A concurrent call finalized these after we read them: compare with the state it recorded.
  const now = await findRecorded(
    recordingPool,
    rest.map(({ entry: { payment }, transaction: { account } }) => ({
      ...payment,
      live: account.live,
    })),
  )
  for (const [index, { entry, transaction, accountNumber }] of rest.entries()) {
    entry.call.result = toRepeated(entry.payment, now[index] ?? transaction, accountNumber)
  }
}

/** The result of a report that does not finalize its transaction: a duplicate or a conflict. */
function toRepeated(
  payment: IncomingPayment,
  transaction: StoredTransaction,
  accountNumber: string,
): RecordResult {
  const repeat = classifyRepeat({ ...transaction, accountNumber }, payment)
  return { outcome: repeat === 'conflict' ? 'CONFLICT' : 'DUPLICATE', transaction }
}

/**
 * The account numbers that reports of recorded payments are expected to have. If an operator
 * assigned a payment to an account, the bank still reports the number that the payer used.
 */
async function expectedAccountNumbers(
  pool: Pool,
  repeats: readonly RepeatEntry[],
): Promise<string[]> {
  const numbers = repeats.map(({ transaction }) => transaction.account.accountNumber)
  const others = repeats.flatMap(({ entry: { payment }, transaction }, index) => {
    const isOther =
      payment.accountNumber !== numbers[index] && payment.amountMinor === transaction.amountMinor
    return isOther ? [{ index, payment }] : []
  })
  if (others.length === 0) return numbers
  const resolutions = await resolutionsOf(
    pool,
    others.map(({ payment }) => payment),
  )
  for (const [at, { index, payment }] of others.entries()) {
    if (resolutions[at] === 'ASSIGNED') numbers[index] = payment.accountNumber
  }
  return numbers
}
