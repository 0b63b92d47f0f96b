import { expect, test } from 'vitest'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { HoldState, TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import { createReversePayment } from '../../src/notifications/process-notification.ts'
import { findPaidReturn } from '../../src/payouts/refund-transaction.ts'
import { fresh, openShop } from '../overview/scene.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { createPayoutScene, payerAt, reasonOf } from './scene.ts'

const service = useService()
const { payouts, until, discrepancies } = createPayoutScene(service)
const held = () => service.client(HeldPaymentService)

/** A payment of the wrong amount by an account of Guaranty Trust Bank. */
async function heldPayment(payerSerial: number) {
  const { businessId, accountNumber } = await openShop(service, {
    terms: { amountMinor: 100_000n },
  })
  const { transaction } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    amountMinor: 60_000n,
    sessionId: fresh('session'),
    payer: payerAt(nuban('058', payerSerial)),
  })
  const { id: transactionId, sessionId } = transaction!
  return { transactionId, key: { businessId, sessionId } }
}

async function stateOf(key: { readonly businessId: string; readonly sessionId: string }) {
  return (await service.client(TransactionService).getTransaction(key)).transaction
}

test('a refund of a held payment whose return was requested completes the return', async () => {
  const { transactionId, key } = await heldPayment(145_700_001)
  const { businessId } = key
  expect(await reasonOf(payouts().refundTransaction({ transactionId }))).toBe('not_refundable')
  await held().returnPayment({ transactionId, reason: 'wrong amount' })
  const part = payouts().refundTransaction({ transactionId, amountMinor: 1n })
  expect(await reasonOf(part)).toBe('validation_failed')
  await payouts().pausePayouts({ scope: 1, reason: 'drill' })
  const request = { transactionId, reference: fresh('refund') }
  const { payout } = await payouts().refundTransaction(request)
  // Nothing else returns the money meanwhile.
  const complete = held().completeReturn({ transactionId, note: 'by hand' })
  expect(await reasonOf(complete)).toBe('not_reversible')
  const { balance } = await service.client(SettlementService).getBalance({ businessId })
  expect(balance).toMatchObject({ pendingMinor: 0n, availableMinor: 0n, reservedMinor: 0n })
  expect((await stateOf(key))?.status).toBe(TransactionStatus.SUCCESS)
  await payouts().resumePayouts({ scope: 1 })
  await until(payout!.id, PayoutStatus.PAID)
  const after = await stateOf(key)
  expect(after?.status).toBe(TransactionStatus.REVERSED)
  expect(after?.reversal?.reason).toBe(`returned by the payout ${payout!.id}`)
  expect(await reasonOf(payouts().refundTransaction({ transactionId }))).toBe('not_refundable')
  // The bank reverses it, too: its money has left twice.
  const reverseByBank = createReversePayment(createTestRuntime(service.database), {
    isSimulated: () => true,
    findPaidReturn: (id) => findPaidReturn(service.database.durablePool, id),
    actor: SYSTEM,
  })
  expect(await reverseByBank('9PSB', key.sessionId, '')).toEqual({
    refused: `${transactionId}: the payout ${payout!.id} returned it`,
  })
  // A caller that did not get the response repeats the request.
  const repeated = await payouts().refundTransaction(request)
  expect(repeated).toMatchObject({
    replayed: true,
    refundableMinor: 0n,
    payout: { id: payout!.id },
  })
  const other = payouts().refundTransaction({ ...request, amountMinor: 1n })
  expect(await reasonOf(other)).toBe('duplicate_reference')
  await waitUntil(async () => {
    const { events } = await service.client(EventService).listEvents({ businessId, limit: 200 })
    return events.some(({ kind }) => kind === 'PAYMENT_REVERSED')
  })
  expect(await discrepancies()).toEqual([])
})

test('a refund of a held payment that fails leaves the return requested', async () => {
  const { transactionId, key } = await heldPayment(Number(MAGIC_ACCOUNTS.rejects))
  await held().returnPayment({ transactionId })
  const { payout } = await payouts().refundTransaction({ transactionId })
  await until(payout!.id, PayoutStatus.FAILED)
  expect((await stateOf(key))?.holdState).toBe(HoldState.RETURN_REQUESTED)
  await held().completeReturn({ transactionId, note: 'by hand' })
  expect((await stateOf(key))?.status).toBe(TransactionStatus.REVERSED)
  expect(await discrepancies()).toEqual([])
})
