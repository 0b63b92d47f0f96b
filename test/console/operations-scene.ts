import { expect } from 'vitest'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { fresh, openAccount, openShop, pay, type Shop, settleAll } from '../overview/scene.ts'
import type { TestService } from '../support/service.ts'

/** What waits for an operator, and what was settled. */
export interface Operations {
  readonly shop: Shop
  /** An account of the shop that payments are assigned to. */
  readonly target: string
  readonly settlementId: string
  readonly heldId: string
  readonly strayId: string
  readonly conflictSession: string
}

/** A shop with a settlement, a held payment, a stray payment, a conflict, an opening and a held notification. */
export async function seedOperations(service: TestService): Promise<Operations> {
  const { durablePool } = service.database
  const shop = await openShop(service, { name: 'Ade Stores' })
  const settlements = service.client(SettlementService)
  await settlements.updateSettlementTerms({
    businessId: shop.businessId,
    terms: { schedule: Schedule.WORKING_DAYS, workingDays: 1, feeFlatMinor: 5_000n },
  })
  await pay(service, shop, 1_500_050n)
  await pay(service, shop, 250_000n)
  const settlementId = await settleAll(service, shop.businessId, 2n)
  const { sessionId } = await pay(service, shop, 150_050n)
  const payments = service.client(TransactionService)
  const stray = { bank: Bank.BANK_9PSB, sessionId: fresh('stray'), amountMinor: 4_200_000n }
  await payments.recordPayment({
    ...{ ...stray, accountNumber: '0000000001', narration: 'for order 12' },
    payer: { name: 'CHIDI EZE', accountNumber: '0123456789', bankName: 'Zenith' },
  })
  await payments.recordPayment({ ...stray, accountNumber: shop.accountNumber, sessionId })
  const strict = await openAccount(service, shop.businessId, { terms: { amountMinor: 50_000n } })
  const held = await pay(service, strict, 40_000n)
  const opening = await openAccount(service, shop.businessId)
  await durablePool.query(
    `update account set status = 'PENDING', opening_state = 'MANUAL_REVIEW', last_cause = 'no response',
      account_number = null, account_name = null where reference = $1`,
    [opening.reference],
  )
  const { rows } = await durablePool.query('select id from unmatched_payment')
  expect(rows).toHaveLength(1)
  return {
    ...{ shop, settlementId, heldId: held.id, strayId: rows[0].id, conflictSession: sessionId },
    target: shop.accountNumber,
  }
}
