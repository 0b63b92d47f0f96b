import type { ServiceImpl } from '@connectrpc/connect'
import type { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { RecordOutcome } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { callingToken, callSourceKey } from '../auth/caller.ts'
import { paymentTraceOf } from '../core/tracing.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { toTransactionMessage } from '../transactions/message.ts'
import { simulateTransfer } from './simulate-transfer.ts'

export function createSandboxRpc(
  runtime: Runtime,
  dependencies: Parameters<typeof simulateTransfer>[1],
): ServiceImpl<typeof SandboxService> {
  return {
    async simulateTransfer(request, context) {
      const { outcome, transaction, sessionId } = await simulateTransfer(
        runtime,
        dependencies,
        { ...request, ...paymentTraceOf(context.values.get(callSourceKey)) },
        callingToken(context).tokenId,
      )
      return {
        outcome: RecordOutcome[outcome],
        sessionId,
        ...(transaction && { transaction: toTransactionMessage(transaction) }),
      }
    },
  }
}
