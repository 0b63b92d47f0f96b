import type { ServiceImpl } from '@connectrpc/connect'
import type { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { actorOf, restrictionOf } from '../../auth/caller.ts'
import type { Clock } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'
import { createSemaphore } from '../../postgres/semaphore.ts'
import { toHeldState, toTransactionMessage } from '../message.ts'
import {
  acceptPayment,
  completeReturn,
  type DecisionDependencies,
  returnPayment,
} from './decide-held.ts'
import { listHeldPayments } from './list-held.ts'

/** How many decisions one instance makes at the same time. */
const DECISIONS_MAX = 4

interface Options {
  readonly database: Database
  readonly clock: Clock
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/** What decisions about held payments need, with the bound that businesses and operators share. */
export function decisionDependencies({ database, clock, onCommit }: Options): DecisionDependencies {
  return { pool: database.pool, clock, onCommit, semaphore: createSemaphore(DECISIONS_MAX) }
}

/** Held payments, for operators. */
export function createHeldPaymentRpc(
  { read }: Database,
  decisions: DecisionDependencies,
): ServiceImpl<typeof HeldPaymentService> {
  return {
    async acceptPayment({ transactionId }, context) {
      const accepted = await acceptPayment(decisions, transactionId, actorOf(context))
      return { transaction: toTransactionMessage(accepted) }
    },
    async returnPayment(request, context) {
      const requested = await returnPayment(decisions, request, actorOf(context))
      return { transaction: toTransactionMessage(requested) }
    },
    async completeReturn(request, context) {
      const returned = await completeReturn(decisions, request, actorOf(context))
      return { transaction: toTransactionMessage(returned) }
    },
    async listHeldPayments(request, context) {
      const { rows, nextPageToken } = await read((on) =>
        listHeldPayments(on, {
          businessId: request.businessId || undefined,
          allowed: restrictionOf(context.values),
          live: request.live,
          hold: toHeldState(request.holdState),
          pageSize: request.pageSize,
          pageToken: request.pageToken,
        }),
      )
      return { transactions: rows.map((row) => toTransactionMessage(row)), nextPageToken }
    },
  }
}
