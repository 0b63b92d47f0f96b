import type { Pool } from 'pg'
import type { BankCode, BankPayment, NotificationOutcome, Reading } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { backoffMs } from '../core/backoff.ts'
import type { Clock } from '../core/clock.ts'
import type { RecordPayment } from '../transactions/record-payment.ts'
import { isReturned } from '../transactions/resolve-unmatched.ts'
import type { RecordOutcome } from '../transactions/transaction.ts'
import { confirmPayment, type MoneyReading } from './confirm-payment.ts'
import { assignSession, findSession, type Processed } from './store.ts'

/** Takes a recorded payment back, as its bank has. Repeating it is safe. */
export type ReversePayment = (
  bank: BankCode,
  sessionId: string,
  reason: string,
) => Promise<'reversed' | 'reversed before' | 'not recorded'>

export interface ProcessDependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly recordPayment: RecordPayment
  /** Undefined: reversals are held for a person. */
  readonly reversePayment: ReversePayment | undefined
}

/** A notification that is authentic. */
export interface Notified {
  readonly bank: BankCode
  readonly served: ServedBank
  readonly reading: Exclude<Reading, { kind: 'unauthenticated' }>
  readonly receivedAtMs: number
  /** How often it was looked at before. */
  readonly tries: number
}

/** What one look found, before it is decided whether there is another one. */
type Verdict = {
  readonly outcome: Exclude<NotificationOutcome, 'forged'>
  readonly cause: string
}

const OUTCOMES: Readonly<Record<RecordOutcome, Verdict['outcome']>> = {
  RECORDED: 'recorded',
  DUPLICATE: 'duplicate',
  UNMATCHED: 'unmatched',
  CONFLICT: 'held',
}

/** The waits between looks double up to an hour: some two days in all, and some two hours. */
const TRIES_MAX = 54
const TRIES_DENIED_MAX = 8
const BACKOFF = { minMs: 30_000, maxMs: 3_600_000 }

/** Does what a notification asks for, as far as its bank confirms it. Looking again is safe. */
export async function look(
  dependencies: ProcessDependencies,
  notified: Notified,
): Promise<Processed> {
  const verdict = await judge(dependencies, notified)
  return decide(verdict, notified.tries, dependencies.clock.now())
}

/** A look that failed for a fault of ours. */
export function failedProcessing(tries: number, nowMs: number): Processed {
  return decide({ outcome: 'try again', cause: 'a fault of this service' }, tries, nowMs)
}

function decide({ outcome, cause }: Verdict, tries: number, nowMs: number): Processed {
  const nextTryAtMs = nowMs + backoffMs(tries + 1, BACKOFF)
  if (outcome === 'try again') {
    if (tries < TRIES_MAX) return { state: 'OPEN', outcome, cause, nextTryAtMs }
    return { state: 'HELD', outcome: 'held', cause, nextTryAtMs: undefined }
  }
  // A bank may notify of a payment before it can be asked for it.
  if (outcome === 'denied' && tries < TRIES_DENIED_MAX) {
    return { state: 'OPEN', outcome, cause, nextTryAtMs }
  }
  return { state: outcome === 'held' ? 'HELD' : 'DONE', outcome, cause, nextTryAtMs: undefined }
}

async function judge(dependencies: ProcessDependencies, notified: Notified): Promise<Verdict> {
  const { reading, served } = notified
  if (reading.kind === 'ignored') return { outcome: 'noise', cause: reading.cause }
  if (reading.kind === 'malformed') return { outcome: 'held', cause: reading.cause }
  const confirmation = await confirmPayment(served, reading)
  switch (confirmation.kind) {
    case 'unknown':
      return { outcome: 'try again', cause: confirmation.cause }
    case 'denied':
      return { outcome: 'denied', cause: confirmation.cause }
    case 'contradiction':
      return { outcome: 'held', cause: confirmation.cause }
    case 'reversed':
      return reverse(dependencies, notified, reading, confirmation.payment)
    case 'paid':
      if (reading.kind === 'payment') return record(dependencies, notified, confirmation.payment)
      return { outcome: 'try again', cause: 'the bank notifies of a reversal, and says it is paid' }
  }
}

async function record(
  { pool, clock, recordPayment }: ProcessDependencies,
  { bank, receivedAtMs }: Notified,
  payment: BankPayment,
): Promise<Verdict> {
  const { bankKey, accountNumber, amountMinor, payer, narration } = payment
  const sessionId = await assignSession(pool, bank, payment, clock.now())
  if (sessionId === undefined) {
    const cause = `the session ${payment.sessionId} is that of another payment than ${bankKey}`
    return { outcome: 'held', cause }
  }
  const incoming = {
    bank,
    live: true,
    accountNumber,
    sessionId,
    amountMinor,
    status: 'SUCCESS',
    paidAtMs: payment.paidAtMs ?? receivedAtMs,
    payer,
    narration,
  } as const
  if (await isReturned(pool, incoming)) {
    return { outcome: 'duplicate', cause: 'it was returned to its payer' }
  }
  // The one place where what a real bank tells of is recorded.
  const { outcome } = await recordPayment(incoming)
  const cause = outcome === 'CONFLICT' ? 'its session is recorded with other facts' : ''
  return { outcome: OUTCOMES[outcome], cause }
}

async function reverse(
  { pool, reversePayment }: ProcessDependencies,
  { bank }: Notified,
  reading: MoneyReading,
  payment: BankPayment,
): Promise<Verdict> {
  const sessionId = await findSession(pool, bank, payment.bankKey)
  if (sessionId === undefined && reading.kind === 'payment') {
    return { outcome: 'denied', cause: 'the bank has taken the payment back' }
  }
  if (reversePayment === undefined) {
    return { outcome: 'held', cause: `the bank has taken ${payment.sessionId} back` }
  }
  const reason = 'the bank has taken the payment back'
  const result = await reversePayment(bank, sessionId ?? payment.sessionId, reason)
  if (result === 'reversed') return { outcome: 'recorded', cause: '' }
  if (result === 'reversed before') return { outcome: 'duplicate', cause: '' }
  return { outcome: 'held', cause: 'the bank has taken back a payment that is not recorded' }
}
