import type { ServiceImpl } from '@connectrpc/connect'
import type { Pool } from 'pg'
import type { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { toBankCode } from '../banks/message.ts'
import { actorOf } from '../caller.ts'
import type { Clock } from '../clock.ts'
import { toTransactionMessage, toUnmatchedMessage } from '../transactions/message.ts'
import {
  assignUnmatched,
  listUnmatched,
  returnUnmatched,
} from '../transactions/resolve-unmatched.ts'

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  /** Called after a commit that added events. */
  readonly published: () => void
}

export function createReconciliationRpc(
  dependencies: Dependencies,
): ServiceImpl<typeof ReconciliationService> {
  return {
    async listUnmatchedPayments({ bank, pageSize, pageToken }) {
      const { rows, nextPageToken } = await listUnmatched(dependencies.pool, {
        bank: bank === Bank.BANK_UNSPECIFIED ? undefined : toBankCode(bank),
        pageSize,
        pageToken,
      })
      return { payments: rows.map(toUnmatchedMessage), nextPageToken }
    },
    async assignUnmatchedPayment(request, context) {
      const transaction = await assignUnmatched(dependencies, request, actorOf(context))
      return { transaction: toTransactionMessage(transaction) }
    },
    async returnUnmatchedPayment(request, context) {
      const payment = await returnUnmatched(dependencies, request, actorOf(context))
      return { payment: toUnmatchedMessage(payment) }
    },
  }
}
