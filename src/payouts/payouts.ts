import type { BankCode, BankOf } from '../banks/bank.ts'
import type { Institutions } from '../banks/institutions.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { createApprove } from './decide-payout.ts'
import { createReadFloats } from './float.ts'
import { createPayoutCounter } from './metrics.ts'
import { createPaySettlements } from './pay-settlements.ts'
import type { Payout } from './payout.ts'
import { createReconcilePayouts, type ReconcileTimes } from './reconcile-payouts.ts'
import { createRequestItems } from './request-items.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { createPayoutRpc } from './rpc.ts'
import { createSendPayouts } from './send-payouts.ts'

/** How many requests of one instance hold a connection while they wait for the lock of a balance. */
const REQUESTS_MAX = 4

interface Options {
  readonly bankOf: BankOf
  readonly encrypter: Encrypter
  readonly institutions: Institutions
  readonly isOpen: (bank: BankCode, live: boolean) => boolean
  readonly onPaid: (payout: Payout) => Promise<void>
  readonly reconcileTimes: ReconcileTimes
}

/** The payouts of this process: its RPCs, and the loops that send, ask, read floats, reconcile and pay settlements out. */
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
  const sender = createSendPayouts(context, { isOpen, onPaid })
  const floats = createReadFloats(context)
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
