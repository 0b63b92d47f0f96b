import { create } from '@bufbuild/protobuf'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type ReconciliationRun,
  ReconciliationRunSchema,
  RunScope as ScopeMessage,
} from '../../gen/inflow/reconciliation/v1/reconciliation_run_pb.ts'
import {
  Action,
  Finding,
  type RecordedPayment as RecordedMessage,
  RecordedPaymentSchema,
  type StatementResult as ResultMessage,
  RetryReason,
  type StatementRow as RowMessage,
  StatementResultSchema,
} from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { plainText } from '../banks/bank-fields.ts'
import { fromBankCode } from '../banks/message.ts'
import { enumName, fromTimestamp } from '../protobuf/values.ts'
import type { RecordedPayment } from '../transactions/find-reported.ts'
import type { ListedPayment } from '../transactions/list-recorded.ts'
import { toPayer } from '../transactions/message.ts'
import type { StatementAction, StatementResult, StatementRow } from './reconcile-statement.ts'
import type { Run, RunScope } from './run-store.ts'

const RETRY_REASONS: Readonly<Partial<Record<StatementAction, RetryReason>>> = {
  RETRY: RetryReason.BANK,
  LATE: RetryReason.TIME,
}

/**
 * Makes the texts storable: one batch records payments of several callers, and an unstorable text
 * would fail all of them.
 *
 * @param row has passed validation
 */
export function toStatementRow(row: RowMessage): StatementRow {
  const { sessionId, bankKey, accountNumber, amountMinor, payer, narration } = row
  return {
    sessionId,
    bankKey,
    accountNumber,
    amountMinor,
    status: (enumName(TransactionStatus, row.status) ?? 'SUCCESS') as StatementRow['status'],
    paidAtMs: row.paidAt && fromTimestamp(row.paidAt),
    payer: toPayer(payer),
    narration: plainText(narration, 500),
  }
}

/** @param row the row that the result belongs to */
export function toResultMessage(
  { finding, action, cause, recorded }: StatementResult,
  { sessionId }: RowMessage,
): ResultMessage {
  return create(StatementResultSchema, {
    finding: Finding[finding],
    action: Action[action === 'LATE' ? 'RETRY' : action],
    cause,
    retryReason: RETRY_REASONS[action] ?? RetryReason.UNSPECIFIED,
    ...(recorded && { recorded: { ...toRecorded(recorded), sessionId } }),
  })
}

export function toListedMessage({ sessionId, paidAtMs, ...rest }: ListedPayment): RecordedMessage {
  const paidAt = timestampFromMs(paidAtMs)
  return create(RecordedPaymentSchema, { ...toRecorded(rest), sessionId, paidAt })
}

function toRecorded({ transactionId, accountNumber, amountMinor, status }: RecordedPayment) {
  return { transactionId, accountNumber, amountMinor, status: TransactionStatus[status] }
}

const SCOPES: Readonly<Record<RunScope, ScopeMessage>> = {
  payments: ScopeMessage.PAYMENTS,
  'active accounts': ScopeMessage.ACTIVE_ACCOUNTS,
  'all accounts': ScopeMessage.ALL_ACCOUNTS,
}

export function toRunMessage(run: Run): ReconciliationRun {
  return create(ReconciliationRunSchema, {
    bank: fromBankCode(run.bank),
    scope: SCOPES[run.scope],
    inProgress: run.inProgress,
    from: timestampFromDate(run.fromAt),
    to: timestampFromDate(run.toAt),
    missedCount: run.missed,
    failureCount: run.failures,
    nextAt: timestampFromDate(run.nextAt),
    cursor: run.cursor,
  })
}
