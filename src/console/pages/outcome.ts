import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  Action,
  Finding,
  type RecordedPayment,
  RetryReason,
  type StatementResult,
} from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { StatementRow } from './statement-csv.ts'

/** Where a payment belongs: `missing` is recorded nowhere here, `extra` is not in the statement. */
export type Group = 'matched' | 'missing' | 'extra' | 'mismatched' | 'unmatched' | 'repeated'

/** A payment of the statement, or one that it lacks, and what became of it. */
export interface Outcome {
  readonly key: string
  readonly group: Group
  /** The row of the statement; undefined: it lacks the payment. */
  readonly row: StatementRow | undefined
  /** The recorded payment; undefined: there is none. */
  readonly recorded: RecordedPayment | undefined
  readonly action: Action
  readonly cause: string
}

export function toMessage({ credit }: StatementRow) {
  const { status, payerName, paidAtMs, ...facts } = credit
  return {
    ...facts,
    status: TransactionStatus[status],
    payer: { name: payerName },
    ...(paidAtMs !== undefined && { paidAt: timestampFromMs(paidAtMs) }),
  }
}

/** Whether the call ran out of time before it reached the row. */
export function isLate({ retryReason }: StatementResult): boolean {
  return retryReason === RetryReason.TIME
}

/** What identifies a payment: its transaction, or else its session or the bank's key. */
function identityOf(row: StatementRow, recorded: RecordedPayment | undefined): string {
  return recorded?.transactionId ?? (row.credit.sessionId || row.credit.bankKey)
}

const GROUPS: Readonly<Partial<Record<Finding, Group>>> = {
  [Finding.MATCHED]: 'matched',
  [Finding.MISSING]: 'missing',
  [Finding.MISMATCHED]: 'mismatched',
  [Finding.UNMATCHED]: 'unmatched',
}

/**
 * Groups a row by its result.
 *
 * @param seen the payments of the rows before; this one is added
 */
export function outcomeOf(row: StatementRow, result: StatementResult, seen: Set<string>): Outcome {
  const { finding, action, cause, recorded } = result
  const identity = identityOf(row, recorded)
  const isRepeat = seen.has(identity) && finding !== Finding.MISMATCHED
  seen.add(identity)
  const group = isRepeat ? 'repeated' : (GROUPS[finding] ?? 'matched')
  return { key: `${row.line}`, group, row, recorded, action, cause }
}

/** A recorded payment that the statement lacks; undefined if it has it, or if no money arrived. */
export function extraOf(recorded: RecordedPayment, seen: ReadonlySet<string>): Outcome | undefined {
  const { transactionId, sessionId, status } = recorded
  if (seen.has(transactionId) || seen.has(sessionId)) return undefined
  if (status !== TransactionStatus.SUCCESS) return undefined
  const nothing = { row: undefined, action: Action.NONE, cause: '' }
  return { key: transactionId, group: 'extra', recorded, ...nothing }
}

/** The amount that a group sums: that of the statement, or else the recorded one. */
export function amountOf({ row, recorded }: Outcome): bigint {
  return row?.credit.amountMinor ?? recorded?.amountMinor ?? 0n
}

/** Whether a further call could change what became of a row. */
export function isOpen({ group, action }: Outcome): boolean {
  if (group === 'missing') {
    return action === Action.NONE || action === Action.RETRY || action === Action.REJECTED
  }
  return group === 'mismatched' && (action === Action.NONE || action === Action.RETRY)
}

/** When the rows were paid: the first, and a second after the last; undefined if no row says. */
export function periodOf(
  rows: readonly StatementRow[],
): { fromMs: number; toMs: number } | undefined {
  let [fromMs, toMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const { credit } of rows) {
    if (credit.paidAtMs === undefined) continue
    fromMs = Math.min(fromMs, credit.paidAtMs)
    toMs = Math.max(toMs, credit.paidAtMs)
  }
  return fromMs <= toMs ? { fromMs, toMs: toMs + 1_000 } : undefined
}
