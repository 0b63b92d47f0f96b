import { ConnectError } from '@connectrpc/connect'
import { onTestFinished } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { Payout, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS, simulatedName } from '../../src/banks/sandbox.ts'
import { fresh, openAccount, pay, settleAll } from '../overview/scene.ts'
import type { TestService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'

/** An account of Guaranty Trust Bank. */
export const ADA = { bankCode: '058', accountNumber: nuban('058', 145_700_001), accountName: '' }

/** An account of the same bank. The digits of MAGIC_ACCOUNTS make a transfer of the sandbox go wrong. */
export const accountAt = (serial: number | string) => {
  return { ...ADA, accountNumber: nuban('058', Number(serial)) }
}

/** The sandbox does not answer for it, never finds what is sent to it, and takes 8 s for its consistency window. */
export const LOST = accountAt(MAGIC_ACCOUNTS.getsLost)

/** The holder of an account at Guaranty Trust Bank, as the payer of a payment. */
export const payerAt = (accountNumber: string) => ({
  name: simulatedName(accountNumber),
  accountNumber,
  bankCode: '000013',
})

/** @returns `accepted`, or the reason of the refusal */
export const reasonOf = (call: Promise<unknown>) =>
  call.then(
    () => 'accepted',
    (error) => ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.reason,
  )

/** Businesses of a service, and their payouts. */
export function createPayoutScene(service: TestService) {
  const payouts = () => service.client(PayoutService)
  return {
    payouts,

    /** A business with money that is available, in kobo, and rules of its own. @returns its id */
    async funded(availableMinor = 1_000_000n, rules?: object): Promise<string> {
      const { id: businessId } = await service.business()
      await pay(service, await openAccount(service, businessId), availableMinor)
      await settleAll(service, businessId, 1n)
      if (rules) await payouts().updatePayoutPolicy({ policy: { businessId, ...rules } })
      return businessId
    },

    /** Requests a payout to an account whose name is resolved first. */
    async request(businessId: string, amountMinor = 400_000n, account = ADA): Promise<Payout> {
      const { resolution } = await payouts().resolveAccountName({ businessId, ...account })
      const { payout } = await payouts().createPayout({
        businessId,
        reference: fresh('payout'),
        amountMinor,
        beneficiary: account,
        resolution,
      })
      return payout!
    },

    async until(payoutId: string, ...statuses: PayoutStatus[]): Promise<Payout> {
      let found: Payout | undefined
      await waitUntil(async () => {
        found = (await payouts().getPayout({ payoutId })).payout
        return found !== undefined && statuses.includes(found.status)
      })
      return found!
    },

    /** A settled payment of 5,000 naira, by the holder of Ada's account unless given. */
    async paid(payer: object = payerAt(ADA.accountNumber)) {
      const { id: businessId } = await service.business()
      const { accountNumber } = await openAccount(service, businessId)
      const sessionId = fresh('session')
      /** @returns the id of the transaction */
      const record = async () => {
        const { transaction } = await service.client(TransactionService).recordPayment({
          bank: Bank.BANK_9PSB,
          accountNumber,
          amountMinor: 500_000n,
          sessionId,
          payer,
        })
        await settleAll(service, businessId, 1n)
        return transaction!.id
      }
      return { transactionId: await record(), businessId, sessionId, record }
    },

    /** Requests a batch that pays Ada twice. @returns its key, once it awaits approval */
    async batchOfTwo(businessId: string) {
      const { beneficiary } = await payouts().resolveAccountName({ businessId, ...ADA })
      const items = ['a', 'b'].map((reference) => ({
        reference,
        amountMinor: 100n,
        beneficiary: beneficiary!,
      }))
      const reference = fresh('batch')
      const { batch } = await payouts().createPayouts({ businessId, reference, items })
      const key = { businessId, batchId: batch!.id }
      await waitUntil(async () => (await payouts().getBatch(key)).batch?.approvalCount === 2)
      return key
    },

    /** Makes the database one that was restored: for a day, callers may repeat requests. The test ends that, at the latest. */
    async restored(repeatsUntil = "now() + interval '1 day'"): Promise<void> {
      const { durablePool } = service.database
      await durablePool.query(`update payout_sender set repeats_until = ${repeatsUntil}`)
      onTestFinished(async () => {
        await durablePool.query('update payout_sender set repeats_until = null')
      })
    },

    async availableOf(businessId: string) {
      const { balance } = await service.client(SettlementService).getBalance({ businessId })
      return balance?.availableMinor
    },

    /** Another person, who may approve. */
    async approver() {
      const request = { name: fresh('approver'), scopes: ['read', 'payouts:approve'] }
      const { secret } = await service.client(AdminService).issueToken(request)
      return service.client(PayoutService, secret)
    },

    /** What `inflow ledger verify` finds. */
    async discrepancies(): Promise<string[]> {
      const found: string[] = []
      for await (const part of service.client(SettlementService).verifyLedger({})) {
        found.push(...part.discrepancies.map(({ subject, problem }) => `${subject} ${problem}`))
      }
      return found
    },
  }
}
