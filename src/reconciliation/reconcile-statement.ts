import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { BankCode, BankPayment, NotificationOutcome } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { assignPaymentSession } from '../notifications/assign-payment-session.ts'
import { look, type ProcessDependencies } from '../notifications/process-notification.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { type PaymentConflict, recordConflict } from '../transactions/record-conflict.ts'
import type { Payer, RecordOutcome } from '../transactions/transaction.ts'
import {
  type Found,
  matchPayments,
  type RecordedPayment,
  type ReportedPayment,
} from './match-payments.ts'

/** One credit of a bank's statement. */
export interface StatementRow extends ReportedPayment {
  readonly paidAtMs: number | undefined
  readonly payer: Payer
  readonly narration: string
}

/** A part of a bank's statement. */
interface Statement {
  readonly bank: BankCode
  readonly told: readonly StatementRow[]
  /** Whether something is to be done about what is found. */
  readonly apply: boolean
}

/** What was done about a row; `again`: the bank did not answer clearly; `late`: the call ran out of time. */
export type StatementAction =
  | 'none'
  | 'recorded'
  | 'unmatched'
  | 'held'
  | 'denied'
  | 'again'
  | 'late'

export interface StatementResult {
  readonly finding: Found['finding']
  readonly action: StatementAction
  readonly cause: string
  readonly recorded: RecordedPayment | undefined
}

export interface ReconcileDependencies extends ProcessDependencies {
  readonly live: ReadonlyMap<BankCode, ServedBank>
  readonly log: Logger
  /** Told of each row that contradicts a recorded payment, once. */
  readonly onConflict: (conflict: PaymentConflict) => void
}

/** At these the session id is the bank's key of a payment too. */
const KEYED_BY_SESSION: ReadonlySet<BankCode> = new Set(['9PSB', 'SAFEHAVEN'])

/** No row is begun after that long, so that a call has an answer whatever the bank does. */
const BEGIN_MS = 15_000

/** How many rows are worked on at once: a live bank has to be asked for each. */
const AT_ONCE_LIVE = 8
const AT_ONCE = 250

/**
 * Compares rows of a statement with what is recorded, and on `apply` does something about them.
 * Repeating it is safe.
 */
export async function reconcileStatement(
  dependencies: ReconcileDependencies,
  { bank, told, apply }: Statement,
  actor: Actor,
): Promise<StatementResult[]> {
  const { pool, clock, live } = dependencies
  const served = live.get(bank)
  const rows = told.map((row) => withKeys(bank, row))
  const found = await matchPayments(pool, bank, rows)
  const results = found.map(({ finding, recorded }) => toResult(finding, recorded, 'none'))
  if (!apply) return results
  const untilMs = clock.now() + BEGIN_MS
  const open = rows.flatMap((row, index) => {
    const each = found[index] as Found
    return each.finding === 'missing' || each.finding === 'differs' ? [{ row, each, index }] : []
  })
  const atOnce = served === undefined ? AT_ONCE : AT_ONCE_LIVE
  for (let at = 0; at < open.length; at += atOnce) {
    const late = clock.now() >= untilMs
    const settling = open.slice(at, at + atOnce).map(async ({ row, each, index }) => {
      const { finding, recorded } = each
      const settled = late ? LATE : await settle(dependencies, bank, served, row, each)
      results[index] = toResult(finding, recorded, settled.action, settled.cause)
    })
    await Promise.all(settling)
  }
  await note(pool, actor, bank, results)
  return results
}

/** What was done, by whom; the rows themselves are in the payments that came of them. */
function note(
  pool: Pool,
  actor: Actor,
  bank: BankCode,
  results: readonly StatementResult[],
): Promise<void> {
  const details: Record<string, number> = { rows: results.length }
  for (const { action } of results) details[action] = (details[action] ?? 0) + 1
  return inTransaction(pool, (client) =>
    appendAudit(client, actor, { action: 'statement.reconcile', targetId: bank, details }),
  )
}

type Settled = Pick<StatementResult, 'action' | 'cause'>

const LATE: Settled = { action: 'late', cause: 'the time of this call was up' }

function toResult(
  finding: Found['finding'],
  recorded: RecordedPayment | undefined,
  action: StatementAction,
  cause = '',
): StatementResult {
  return { finding, recorded, action, cause }
}

/** What is not told is what stands in for it. */
function withKeys(bank: BankCode, row: StatementRow): StatementRow {
  const bankKey = row.bankKey || (KEYED_BY_SESSION.has(bank) ? row.sessionId : '')
  return { ...row, bankKey, sessionId: row.sessionId || row.bankKey }
}

async function settle(
  dependencies: ReconcileDependencies,
  bank: BankCode,
  served: ServedBank | undefined,
  row: StatementRow,
  { finding, recorded, held }: Found,
): Promise<Settled> {
  if (finding === 'differs' && recorded) {
    const difference = { bank, transactionId: recorded.transactionId }
    if (!held) await recordConflict(dependencies, difference, row, dependencies.clock.now())
    return { action: 'held', cause: '' }
  }
  if (served === undefined) return recordAsTold(dependencies, bank, row)
  if (row.bankKey === '') {
    const cause = 'without its own key of the payment the bank cannot be asked'
    return { action: 'denied', cause }
  }
  return recordConfirmed(dependencies, bank, served, row)
}

const ACTIONS: Readonly<Record<NotificationOutcome, StatementAction>> = {
  recorded: 'recorded',
  duplicate: 'none',
  unmatched: 'unmatched',
  // The bank's answer contradicts its statement: nothing is recorded.
  held: 'denied',
  noise: 'denied',
  forged: 'denied',
  denied: 'denied',
  'try again': 'again',
}

async function recordConfirmed(
  dependencies: ReconcileDependencies,
  bank: BankCode,
  served: ServedBank,
  row: StatementRow,
): Promise<Settled> {
  const { log, clock } = dependencies
  const payment: BankPayment = row
  const reading = { kind: 'payment', payment, bound: false } as const
  const notified = { bank, served, reading, receivedAtMs: clock.now(), tries: 0 }
  const { outcome, cause } = await look(dependencies, notified)
  const { bankKey, sessionId } = row
  log.info({ bank, bankKey, sessionId, outcome, cause }, 'a row of a statement is not recorded so')
  return { action: ACTIONS[outcome], cause }
}

const OUTCOMES: Readonly<Record<RecordOutcome, StatementAction>> = {
  RECORDED: 'recorded',
  DUPLICATE: 'none',
  UNMATCHED: 'unmatched',
  CONFLICT: 'held',
}

/** There is no bank to ask: what the operator brings is believed, and told in the log. */
async function recordAsTold(
  { pool, clock, log, recordPayment }: ReconcileDependencies,
  bank: BankCode,
  row: StatementRow,
): Promise<Settled> {
  const { bankKey, accountNumber, amountMinor, payer, narration } = row
  const nowMs = clock.now()
  const sessionId =
    bankKey === '' ? row.sessionId : await assignPaymentSession(pool, bank, row, nowMs)
  if (sessionId === undefined) {
    return { action: 'denied', cause: `its session is that of another payment than ${bankKey}` }
  }
  const paidAtMs = row.paidAtMs ?? nowMs
  const facts = { bank, accountNumber, sessionId, amountMinor, paidAtMs, payer, narration }
  const { outcome } = await recordPayment({ ...facts, live: true, status: 'SUCCESS' })
  const line = { bank, sessionId, accountNumber, amountMinor: String(amountMinor), outcome }
  log.warn(line, 'a payment was recorded as a statement tells of it')
  return { action: OUTCOMES[outcome], cause: '' }
}
