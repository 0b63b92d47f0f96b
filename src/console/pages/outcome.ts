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

/** The group of a payment: `missing` payments are not recorded, `extra` payments are not in the statement. */
export type Group = 'matched' | 'missing' | 'extra' | 'mismatched' | 'unmatched' | 'repeated'

/** A payment of the statement or a recorded payment that it lacks, with the result of the comparison. */
export interface Outcome {
  readonly key: string
  readonly group: Group
  /** The row of the statement; undefined: the statement lacks the payment. */
  readonly row: StatementRow | undefined
  /** The recorded payment; undefined: the payment is not recorded. */
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

/** The identity of a payment: its transaction, or else its session id or the bank's key. */
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
 * @param seen the payments of the previous rows, to which the payment is added
 */
export function outcomeOf(row: StatementRow, result: StatementResult, seen: Set<string>): Outcome {
  const { finding, action, cause, recorded } = result
  const identity = identityOf(row, recorded)
  const isRepeat = seen.has(identity) && finding !== Finding.MISMATCHED
  seen.add(identity)
  const group = isRepeat ? 'repeated' : (GROUPS[finding] ?? 'matched')
  return { key: `${row.line}`, group, row, recorded, action, cause }
}

/** A recorded payment that the statement lacks; undefined if the statement has it, or if no money arrived. */
export function extraOf(recorded: RecordedPayment, seen: ReadonlySet<string>): Outcome | undefined {
  const { transactionId, sessionId, status } = recorded
  if (seen.has(transactionId) || seen.has(sessionId)) return undefined
  if (status !== TransactionStatus.SUCCESS) return undefined
  const nothing = { row: undefined, action: Action.NONE, cause: '' }
  return { key: transactionId, group: 'extra', recorded, ...nothing }
}

/** The amount that counts in the sum of a group: that of the statement, or else the recorded amount. */
export function amountOf({ row, recorded }: Outcome): bigint {
  return row?.credit.amountMinor ?? recorded?.amountMinor ?? 0n
}

/** Whether another call could change the result of a row. */
export function isOpen({ group, action }: Outcome): boolean {
  if (group === 'missing') {
    return action === Action.NONE || action === Action.RETRY || action === Action.REJECTED
  }
  return group === 'mismatched' && (action === Action.NONE || action === Action.RETRY)
}

/** The period of the rows, from the first until a second after the last; undefined if no row has a time. */
export function rowPeriodOf(
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
