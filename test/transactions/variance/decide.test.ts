import { expect, test } from 'vitest'
import {
  HoldState,
  TransactionStatus,
  Variance,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { useSharedService } from '../../support/service.ts'
import { audited } from '../../thirdparty/scene.ts'
import { heldPaymentsOf, newBusiness, type Shown } from './fixture.ts'

const service = useSharedService()

/** A business with one payment of 90 naira where 100 are expected. */
async function underpaid(options: Readonly<Record<string, unknown>> = {}) {
  const shop = await newBusiness(service)
  const account = await shop.open({ amount: 100, ...options })
  const { transaction, sessionId } = await account.pay(90)
  return { shop, account, id: transaction.id, sessionId }
}

/** The decisions in the audit log, newest first, with who made them. */
async function decisions(businessId: string) {
  const entries = await audited(service, businessId, 50)
  return entries.flatMap(({ action, by, targetId }) =>
    action.startsWith('transaction.') ? [[action, by.split(' ')[0], targetId]] : [],
  )
}

test('a return is requested by the business, completed by an operator, and never credited', async () => {
  const { shop, id, sessionId } = await underpaid()
  const reason = 'paid too little'
  const requested = await shop.call('returnPayment', { session_id: sessionId, reason })
  expect(requested).toMatchObject({
    message: 'Return requested',
    data: { hold_state: 'RETURN_REQUESTED' },
  })
  expect((await shop.call('returnPayment', { session_id: sessionId })).status).toBe(true)
  expect(await shop.call('acceptPayment', { session_id: sessionId })).toMatchObject({
    code: 'not_held',
  })
  const held = heldPaymentsOf(service)
  const { transactions } = await held.listHeldPayments({
    businessId: shop.businessId,
    holdState: HoldState.RETURN_REQUESTED,
  })
  expect(transactions).toMatchObject([{ id, returnReason: reason }])
  const complete = () => held.completeReturn({ transactionId: id, note: 'by NIP transfer' })
  const { transaction } = await complete()
  expect(transaction).toMatchObject({
    status: TransactionStatus.REVERSED,
    holdState: HoldState.RETURNED,
    reversal: { reason: 'by NIP transfer' },
  })
  expect((await complete()).transaction).toMatchObject({ holdState: HoldState.RETURNED })
  const events = await shop.events(2, 'PAYMENT_RETURN_REQUESTED', 'PAYMENT_REVERSED')
  expect(events.map(({ event, data }) => [event, data.hold_state])).toEqual([
    ['PAYMENT_RETURN_REQUESTED', 'RETURN_REQUESTED'],
    ['PAYMENT_REVERSED', 'RETURNED'],
  ])
  expect(await shop.balance()).toMatchObject({ pendingMinor: 0n, availableMinor: 0n })
  expect((await shop.call('listHeldPayments', {})).data.transactions).toEqual([])
  expect(await decisions(shop.businessId)).toEqual([
    ['transaction.complete_return', 'bootstrap', id],
    ['transaction.return', 'secret_key', id],
  ])
})

test('a payment that was pending is decided by the payer of its final report', async () => {
  const shop = await newBusiness(service)
  const payer = { name: 'BOLA ADE', accountNumber: '0123456789', bankCode: '058' }
  const { pay } = await shop.open({ allowedPayers: [{ accountNumber: payer.accountNumber }] })
  const { sessionId } = await pay(100, { status: TransactionStatus.PENDING })
  const { transaction } = await pay(100, { sessionId, payer })
  expect(transaction).toMatchObject({ variance: Variance.NONE, payer })
  const [event] = await shop.events(1, 'PAYMENT_NOTIFICATION')
  expect(event.data.payer).toMatchObject({ account_name: 'BOLA ADE', account_number: '0123456789' })
})

test('two banks may use one session id: the bank says which payment is meant', async () => {
  const shop = await newBusiness(service)
  const sessionId = 'two-banks'
  for (const [bank, name] of [
    [1, '9PSB'],
    [3, 'PROVIDUS'],
  ] as const) {
    const { pay } = await shop.open({ bank: name, amount: 100 }, name)
    await pay(90, { sessionId, bank })
  }
  expect(await shop.call('acceptPayment', { session_id: sessionId })).toMatchObject({
    code: 'validation_failed',
    errors: [{ field: 'bank' }],
  })
  const chosen = await shop.call('acceptPayment', { session_id: sessionId, bank: 'PROVIDUS' })
  expect(chosen.data).toMatchObject({ bank: 'PROVIDUS', hold_state: 'ACCEPTED' })
})

test('a list by recorded time has a held payment once it is accepted', async () => {
  const { shop, account, id, sessionId } = await underpaid()
  const { sessionId: other } = await account.pay(100)
  const list = async () =>
    (
      await shop.call('listTransactions', { recorded_from: '2020-01-01 00:00:00' })
    ).data.transactions.map((each: Shown) => each.session_id)
  await expect.poll(list).toEqual([other])
  await shop.call('acceptPayment', { session_id: sessionId })
  await expect.poll(list).toEqual([other, sessionId])
  expect(await decisions(shop.businessId)).toEqual([['transaction.accept', 'secret_key', id]])
})
