import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { createApprove } from './decide-payout.ts'
import { createReadFloats, type Denials } from './float.ts'
import { createPayoutCounter } from './metrics.ts'
import { createPaySettlements } from './pay-settlements.ts'
import { createReconcilePayouts, type ReconcileTimes } from './reconcile-payouts.ts'
import { createRequestItems } from './request-items.ts'
import type { PayoutContext } from './reserve-payout.ts'
import type { NameContext } from './resolve-name.ts'
import { createPayoutRpc } from './rpc.ts'
import { createSendPayouts, type SenderOptions } from './send-payouts.ts'

/** The most requests of one instance that hold a connection while they wait for the lock of a balance. */
const REQUESTS_MAX = 4

interface Options extends NameContext, Omit<SenderOptions, 'denials'> {
  readonly reconcileTimes: ReconcileTimes
}

/** The payouts of this process: the RPCs, and the loops that send and reconcile payouts and pay out settlements. */
export function createPayouts(
  runtime: Runtime,
  { bankOf, encrypter, institutions, isOpen, onPaid, reconcileTimes }: Options,
) {
  const context: PayoutContext = {
    ...runtime,
    bankOf,
    encrypter,
    institutions,
    semaphore: createSemaphore(REQUESTS_MAX),
    count: createPayoutCounter(runtime.metrics),
    wake: () => sender.wake(),
    wakeItems: () => items.wake(),
  }
  const denials: Denials = new Map()
  const sender = createSendPayouts(context, { isOpen, denials, onPaid })
  const floats = createReadFloats(context, denials)
  const reconciliation = createReconcilePayouts(context, reconcileTimes)
  const settlements = createPaySettlements(context)
  const items = createRequestItems(context)
  return {
    context,
    rpc: createPayoutRpc({ ...context, approve: createApprove(context) }),
    start() {
      sender.start()
      floats.start()
      reconciliation.start()
      settlements.start()
      items.start()
    },
    async stop() {
      await Promise.all(
        [sender, floats, reconciliation, settlements, items].map((loop) => loop.stop()),
      )
    },
  }
}
