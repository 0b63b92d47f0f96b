import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import type { Make, Scene } from './scene.ts'

/** A payment of each scene that is pending: nothing more happens to it by itself. */
const pending = new WeakMap<Scene, Promise<string>>()

async function recordPending({ service, accountNumber }: Scene): Promise<string> {
  const { transaction } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId: 'overview-pending',
    amountMinor: 700n,
    status: TransactionStatus.PENDING,
  })
  return transaction!.id
}

/** A call of each rpc of the overview that goes well. */
export const OVERVIEW_HAPPY: Readonly<Record<string, Make>> = {
  'OverviewService.GetTimeline': async (scene) => {
    const id = pending.get(scene) ?? recordPending(scene)
    pending.set(scene, id)
    return { transactionId: await id }
  },
  'OverviewService.Search': ({ sessionId }) => ({ query: sessionId }),
  'OverviewService.GetOverview': ({ otherBusinessId }) => ({ businessId: otherBusinessId }),
  'OverviewService.ListReviewItems': ({ businessId }) => ({ businessId, pageSize: 1 }),
}

/** A call for each error that an rpc of the overview names. */
export const OVERVIEW_ERRORS: Readonly<Record<string, Make>> = {
  'OverviewService.GetTimeline validation_failed': () => ({}),
  'OverviewService.GetTimeline not_found': () => ({ transactionId: 'txn_nobody' }),
  'OverviewService.Search validation_failed': () => ({ query: 'x'.repeat(255) }),
  'OverviewService.GetOverview validation_failed': () => ({ businessId: 'x'.repeat(61) }),
  'OverviewService.ListReviewItems validation_failed': () => ({ pageToken: 'garbage' }),
}
