import { createInstitutions } from '../../src/banks/institutions.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { createSandboxBank } from '../../src/banks/sandbox.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { approvePayout, createApprove, rejectPayout } from '../../src/payouts/decide-payout.ts'
import type { Payout } from '../../src/payouts/payout.ts'
import { refundTransaction } from '../../src/payouts/refund-transaction.ts'
import type { PayoutContext } from '../../src/payouts/reserve-payout.ts'
import { changePayout, type PayoutChange } from '../../src/payouts/store.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { createSemaphore } from '../../src/postgres/semaphore.ts'
import { createScene } from '../settlement/shares-fixture.ts'
import { MASTER_KEY } from '../support/master-key.ts'
import { SYSTEM } from '../support/operator.ts'

/** An account of Guaranty Trust Bank. */
const ACCOUNT = {
  bankCode: '058',
  accountNumber: nuban('058', 145_700_001),
  accountName: '',
  field: 'beneficiary',
}

/** Businesses that split, settle and refund payments; nothing sends their payouts but the test. */
export function createRefundScene(database: Database) {
  const scene = createScene(database)
  const { durablePool } = database
  const connector = createSandboxBank(durablePool, scene.clock)
  const context: PayoutContext = {
    ...scene,
    bankOf: () => ({ name: 'sandbox', connector, isSandbox: true, callTimeoutMs: 1_000 }),
    institutions: createInstitutions(),
    encrypter: createEncrypter(MASTER_KEY),
    semaphore: createSemaphore(4),
    wake: () => undefined,
    wakeItems: () => undefined,
    count: () => undefined,
  }
  const approving = { ...context, approve: createApprove(context) }
  const change = (payout: Payout | undefined, to: PayoutChange) =>
    payout && changePayout(durablePool, payout, to, scene.clock.now())
  return {
    ...scene,
    context,
    /** Requests a refund, which awaits approval. @param amountMinor 0: all that is left */
    async refund(transactionId: string, amountMinor = 0n): Promise<Payout> {
      const request = { transactionId, amountMinor, account: ACCOUNT, amountField: 'amount' }
      const result = await refundTransaction(
        context,
        { ...request, reason: '', reference: '' },
        SYSTEM,
      )
      return result.payout
    },
    reject: ({ id: payoutId }: Payout) => rejectPayout(context, { payoutId, note: '' }, SYSTEM),
    /** Approves a refund and has the bank pay it, refuse it, or pay it and send it back. */
    async send(payout: Payout, result: 'PAID' | 'FAILED' | 'RETURNED') {
      const approver = { ...SYSTEM, id: 'approver' }
      const approved = await approvePayout(approving, { payoutId: payout.id, note: '' }, approver)
      if (approved.status !== 'APPROVED') return
      const submitted = { submitted: true, bank: '9PSB', claimed: true } as const
      const sent = await change(approved, { status: 'SUBMITTING', ...submitted })
      const after = await change(sent, { status: result === 'FAILED' ? 'FAILED' : 'PAID' })
      if (result === 'RETURNED') await change(after, { status: 'RETURNED' })
    },
  }
}
