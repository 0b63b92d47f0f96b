import type { MikroORM } from '@mikro-orm/postgresql'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { type Actor, credentialIdOf } from '../auth/caller.ts'
import type { BankCode, BankPayment, IsSimulated, NotificationOutcome } from '../banks/bank.ts'
import { KEYED_BY_SESSION } from '../banks/bank.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import {
  confirmAndRecord,
  type ProcessDependencies,
} from '../notifications/process-notification.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { recordConflicts } from '../transactions/conflicts.ts'
import type { RecordedPayment } from '../transactions/find-reported.ts'
import type {
  Payer,
  RecordedBy,
  RecordOutcome,
  StoredConflict,
} from '../transactions/transaction.ts'
import { type Finding, type KeyedPayment, type Match, matchPayments } from './record-missing.ts'

/** One credit of a bank's statement. */
export interface StatementRow extends KeyedPayment {
  readonly paidAtMs: number | undefined
  readonly payer: Payer
  readonly narration: string
}

interface Statement {
  readonly bank: BankCode
  readonly rows: readonly StatementRow[]
  /** Whether to act on the findings. */
  readonly apply: boolean
}

export type StatementAction =
  | 'NONE'
  | 'RECORDED'
  | 'UNMATCHED'
  | 'REVIEW'
  | 'REJECTED'
  /** The bank's response was not clear: the caller should send the row again. */
  | 'RETRY'
  /** The call ran out of time; reported as a retry with its own reason. */
  | 'LATE'

export interface StatementResult {
  readonly finding: Finding
  readonly action: StatementAction
  readonly cause: string
  readonly recorded: RecordedPayment | undefined
}

export interface ReconcileDependencies extends ProcessDependencies {
  readonly isSimulated: IsSimulated
  readonly live: ReadonlyMap<BankCode, ServedBank>
  /** Called once for each row that conflicts with a recorded payment. */
  readonly onConflict: (conflict: StoredConflict) => void
}

/** No row is started after this time, so that the caller gets a response however slow the bank is. */
const START_MS = 15_000

/** How many rows are applied concurrently: at a live bank each needs a requery. */
const LIVE_CONCURRENCY = 8
const CONCURRENCY = 250

/**
 * Compares statement rows with the recorded payments and, with `apply`, acts on the findings. It is safe
 * to repeat the call.
 */
export async function reconcileStatement(
  runtime: Runtime,
  dependencies: ReconcileDependencies,
  { bank, rows: statementRows, apply }: Statement,
  actor: Actor,
): Promise<StatementResult[]> {
  const { clock, log } = runtime
  const { orm } = runtime.database
  const { live, isSimulated } = dependencies
  const served = live.get(bank)
  const rows = statementRows.map((row) => withKeys(bank, row))
  const matches = await matchPayments(runtime, isSimulated, bank, rows)
  const results = matches.map(({ finding, recorded }) => toResult(finding, recorded, 'NONE'))
  if (!apply) return results
  const untilMs = clock.now() + START_MS
  const unresolved = rows.flatMap((row, index) => {
    const match = matches[index] as Match
    const { finding } = match
    return finding === 'MISSING' || finding === 'MISMATCHED' ? [{ row, match, index }] : []
  })
  const recordedBy = `statement:${credentialIdOf(actor)}` as const
  const concurrency = served === undefined ? CONCURRENCY : LIVE_CONCURRENCY
  for (let at = 0; at < unresolved.length; at += concurrency) {
    const late = clock.now() >= untilMs
    const applying = unresolved.slice(at, at + concurrency).map(async ({ row, match, index }) => {
      const { finding, recorded } = match
      const applied = late
        ? LATE
        : await applyRow(runtime, dependencies, { bank, served, row, recordedBy }, match).catch(
            (error: unknown) => {
              const { bankKey, sessionId } = row
              log.error(
                { err: error, bank, bankKey, sessionId },
                'processing a statement row failed',
              )
              return FAILED
            },
          )
      results[index] = toResult(finding, recorded, applied.action, applied.cause)
    })
    await Promise.all(applying)
  }
  await appendAuditEntry(orm, actor, bank, results)
  return results
}

/** The audit entry only counts the actions: recorded payments name the credential that applied the statement. */
function appendAuditEntry(
  orm: MikroORM,
  actor: Actor,
  bank: BankCode,
  results: readonly StatementResult[],
): Promise<void> {
  const details: Record<string, number> = { rows: results.length }
  for (const { action } of results) {
    const name = action.toLowerCase()
    details[name] = (details[name] ?? 0) + 1
  }
  return orm.em
    .fork()
    .transactional((em) =>
      appendAudit(em, actor, { action: 'statement.reconcile', targetId: bank, details }),
    )
}

type Applied = Pick<StatementResult, 'action' | 'cause'>

const LATE: Applied = { action: 'LATE', cause: 'the call ran out of time' }

/** Other rows of the call may be recorded, so it does not fail as a whole. */
const FAILED: Applied = {
  action: 'RETRY',
  cause: 'the row could not be processed; the log has the cause',
}

function toResult(
  finding: Finding,
  recorded: RecordedPayment | undefined,
  action: StatementAction,
  cause = '',
): StatementResult {
  return { finding, recorded, action, cause }
}

/** Uses the session id for a missing key (if the bank's keys are session ids), and the key for a missing session id. */
function withKeys(bank: BankCode, row: StatementRow): StatementRow {
  const bankKey = row.bankKey || (KEYED_BY_SESSION.has(bank) ? row.sessionId : '')
  return { ...row, bankKey, sessionId: row.sessionId || row.bankKey }
}

/** A row of a statement that an operator applies. */
interface AppliedRow {
  readonly bank: BankCode
  /** Undefined: the bank is not live. */
  readonly served: ServedBank | undefined
  readonly row: StatementRow
  readonly recordedBy: RecordedBy
}

async function applyRow(
  runtime: Runtime,
  dependencies: ReconcileDependencies,
  applied: AppliedRow,
  { finding, recorded, conflictRecorded }: Match,
): Promise<Applied> {
  const { bank, served, row } = applied
  if (finding === 'MISMATCHED' && recorded) {
    const { transactionId } = recorded
    if (!conflictRecorded) {
      await recordConflicts(runtime, dependencies, [{ bank, transactionId, reported: row }])
    }
    return { action: 'REVIEW', cause: '' }
  }
  if (served === undefined) return recordUnconfirmed(runtime, dependencies, applied)
  if (row.bankKey === '') {
    const cause = "a requery needs the bank's key of the payment"
    return { action: 'REJECTED', cause }
  }
  return recordConfirmed(runtime, dependencies, { ...applied, served })
}

const ACTIONS: Readonly<Record<NotificationOutcome, StatementAction>> = {
  RECORDED: 'RECORDED',
  DUPLICATE: 'NONE',
  UNMATCHED: 'UNMATCHED',
  // The requery response conflicts with the statement: nothing is recorded.
  MANUAL_REVIEW: 'REJECTED',
  IGNORED: 'REJECTED',
  UNAUTHENTICATED: 'REJECTED',
  UNCONFIRMED: 'REJECTED',
  RETRY: 'RETRY',
}

async function recordConfirmed(
  runtime: Runtime,
  dependencies: ReconcileDependencies,
  { bank, served, row, recordedBy }: AppliedRow & { readonly served: ServedBank },
): Promise<Applied> {
  const { log, clock } = runtime
  const payment: BankPayment = row
  const reading = { kind: 'payment', payment, bound: false } as const
  const report = { bank, served, reading, receivedAtMs: clock.now(), recordedBy }
  const { outcome, cause } = await confirmAndRecord(runtime, dependencies, report)
  const { bankKey, sessionId } = row
  log.info(
    { bank, bankKey, sessionId, outcome, cause },
    'statement row processed as a missing payment',
  )
  return { action: ACTIONS[outcome], cause }
}

const OUTCOMES: Readonly<Record<RecordOutcome, StatementAction>> = {
  RECORDED: 'RECORDED',
  DUPLICATE: 'NONE',
  UNMATCHED: 'UNMATCHED',
  CONFLICT: 'REVIEW',
}

/** There is no live bank to requery: the operator's statement is trusted, and the log says so. */
async function recordUnconfirmed(
  { clock, log }: Runtime,
  { assignSession, recordPayment }: ReconcileDependencies,
  { bank, row, recordedBy }: AppliedRow,
): Promise<Applied> {
  const { bankKey, accountNumber, amountMinor, payer, narration } = row
  const nowMs = clock.now()
  const sessionId = bankKey === '' ? row.sessionId : await assignSession({ ...row, bank })
  if (sessionId === undefined) {
    return { action: 'REJECTED', cause: `its session belongs to another payment than ${bankKey}` }
  }
  const paidAtMs = row.paidAtMs ?? nowMs
  const facts = { bank, accountNumber, sessionId, amountMinor, paidAtMs, payer, narration }
  const { outcome } = await recordPayment({ ...facts, live: true, status: 'SUCCESS', recordedBy })
  const line = { bank, sessionId, accountNumber, amountMinor: String(amountMinor), outcome }
  log.warn(line, 'payment recorded from a statement without confirmation by the bank')
  return { action: OUTCOMES[outcome], cause: '' }
}
