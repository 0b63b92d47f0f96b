import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import type { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { actorOf } from '../auth/caller.ts'
import { toBankCode, toBankFilter } from '../banks/message.ts'
import { type FieldFault, invalidFields } from '../core/errors.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { listConflicts, resolveConflict } from '../transactions/conflicts.ts'
import { listRecorded } from '../transactions/list-recorded.ts'
import {
  toConflictMessage,
  toTransactionMessage,
  toUnmatchedMessage,
} from '../transactions/message.ts'
import {
  assignUnmatched,
  listUnmatched,
  returnUnmatched,
} from '../transactions/resolve-unmatched.ts'
import { canBePaidAt } from '../transactions/transaction.ts'
import { toListedMessage, toResultMessage, toRunMessage, toStatementRow } from './message.ts'
import { type ReconcileDependencies, reconcileStatement } from './reconcile-statement.ts'
import { listRuns } from './run-store.ts'

export function createReconciliationRpc(
  runtime: Runtime,
  dependencies: ReconcileDependencies,
): ServiceImpl<typeof ReconciliationService> {
  return {
    async listUnmatchedPayments({ bank, accountNumber, pageSize, pageToken }) {
      const code = toBankFilter(bank)
      const { rows, nextPageToken } = await runtime.database.read((on) =>
        listUnmatched(on, { bank: code, accountNumber, pageSize, pageToken }),
      )
      return { payments: rows.map(toUnmatchedMessage), nextPageToken }
    },
    async reconcile({ bank, rows, apply }, context) {
      const faults = rows.flatMap(({ paidAt }, index) => timeFault(`rows[${index}].paidAt`, paidAt))
      if (faults.length > 0) throw invalidFields(faults)
      const statementRows = rows.map(toStatementRow)
      const results = await reconcileStatement(
        runtime,
        dependencies,
        { bank: toBankCode(bank), rows: statementRows, apply },
        actorOf(context),
      )
      return {
        results: results.map((result, index) =>
          toResultMessage(result, rows[index] as (typeof rows)[number]),
        ),
      }
    },
    async listRecordedPayments({ bank, from, to, pageSize, pageToken }) {
      const faults = [...timeFault('from', from), ...timeFault('to', to)]
      if (faults.length > 0) throw invalidFields(faults)
      const listing = {
        bank: toBankCode(bank),
        fromMs: from ? fromTimestamp(from) : 0,
        toMs: to ? fromTimestamp(to) : 0,
        pageSize,
        pageToken,
      }
      const { payments, nextPageToken } = await runtime.database.read((on) =>
        listRecorded(on, listing),
      )
      return { payments: payments.map(toListedMessage), nextPageToken }
    },
    async listReconciliationRuns({ bank }) {
      const code = toBankFilter(bank)
      const runs = await listRuns(runtime.database.orm, code)
      return { runs: runs.map(toRunMessage) }
    },
    async listPaymentConflicts(request) {
      const { rows, nextPageToken } = await runtime.database.read((on) =>
        listConflicts(on, request),
      )
      return { conflicts: rows.map(toConflictMessage), nextPageToken }
    },
    async resolvePaymentConflict(request, context) {
      const conflict = await resolveConflict(runtime, request, actorOf(context))
      return { conflict: toConflictMessage(conflict) }
    },
    async assignUnmatchedPayment(request, context) {
      const transaction = await assignUnmatched(runtime, dependencies, request, actorOf(context))
      return { transaction: toTransactionMessage(transaction) }
    },
    async returnUnmatchedPayment(request, context) {
      const payment = await returnUnmatched(runtime, request, actorOf(context))
      return { payment: toUnmatchedMessage(payment) }
    },
  }
}

function timeFault(field: string, at: Timestamp | undefined): FieldFault[] {
  if (at === undefined || canBePaidAt(fromTimestamp(at))) return []
  return [{ field, message: 'must be from the year 2000 to 2099' }]
}
