import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import {
  HoldState,
  TransactionStatus,
  Variance,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { RecordOutcome } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { useSharedService } from '../../support/service.ts'
import { paymentInto, transactionsOf } from '../fixture.ts'
import { discrepanciesOf, newBusiness, type Shown } from './fixture.ts'

const service = useSharedService()

const HOUR_MS = 3_600_000

test('records every payment, says how it differs, and holds what differs', async () => {
  const shop = await newBusiness(service)
  const { pay } = await shop.open({
    amount: '5000.50',
    expiresAt: new Date(Date.now() + HOUR_MS).toISOString(),
    allowedPayers: [{ name: 'Ada Obi' }, { accountNumber: '1003245245', bankCode: '000013' }],
    metadata: { order: '7' },
  })
  const payer = { name: 'OBI ADA N.' }
  const cases = [
    ['NONE', await pay(5000.5, { payer })],
    ['NONE', await pay(5000.5, { payer: { accountNumber: '1003245245', bankCode: '000013' } })],
    ['UNDERPAID', await pay(5000, { payer })],
    ['OVERPAID', await pay(5001, { payer })],
    ['EXPIRED', await pay(5000.5, { payer, paidAt: timestampFromMs(Date.now() + 2 * HOUR_MS) })],
    ['PAYER_NOT_ALLOWED', await pay(5000.5, { payer: { name: 'ADA BELLO' } })],
  ] as const
  for (const [variance, { outcome, transaction, sessionId }] of cases) {
    expect(outcome).toBe(RecordOutcome.RECORDED)
    const isHeld = variance !== 'NONE'
    expect(transaction).toMatchObject({
      status: TransactionStatus.SUCCESS,
      variance: Variance[variance],
      holdState: isHeld ? HoldState.HELD : HoldState.UNSPECIFIED,
      expectedAmountMinor: 500_050n,
      metadata: { order: '7' },
    })
    const { data } = await shop.call('getTransaction', { session_id: sessionId })
    expect(data).toMatchObject({
      expected_amount: 5000.5,
      variance,
      metadata: { order: '7' },
      status: 'SUCCESS',
    })
    expect(data.hold_state).toBe(isHeld ? 'HELD' : undefined)
  }
  const sent = await shop.events(cases.length, 'PAYMENT_NOTIFICATION', 'PAYMENT_ON_HOLD')
  for (const { event, data } of sent) {
    const [kind, type] =
      data.variance === 'NONE'
        ? ['PAYMENT_NOTIFICATION', 'RESERVED_ACCOUNT_TRANSACTION']
        : ['PAYMENT_ON_HOLD', 'RESERVED_ACCOUNT_HELD_PAYMENT']
    expect([event, data.type]).toEqual([kind, type])
  }
  expect(
    sent.map(({ data }: Shown) => [data.variance, data.expected_amount, data.metadata]),
  ).toEqual(cases.map(([variance]) => [variance, '5000.50', { order: '7' }]))
  // Only what is as expected is pending.
  expect(await shop.balance()).toMatchObject({ pendingMinor: 1_000_100n, availableMinor: 0n })
  const { data } = await shop.call('listHeldPayments', {})
  expect(data.transactions.map((each: Shown) => each.variance)).toEqual([
    'PAYER_NOT_ALLOWED',
    'EXPIRED',
    'OVERPAID',
    'UNDERPAID',
  ])
  expect(await discrepanciesOf(service)).toEqual([])
})

test('of payments at once into a single-use account, one is NONE', async () => {
  const shop = await newBusiness(service)
  const { pay, number } = await shop.open({ singleUse: true, amount: 100 })
  const [paid, batch] = await Promise.all([
    Promise.all(Array.from({ length: 20 }, () => pay(100))),
    transactionsOf(service).recordPayments({
      payments: [1, 2, 3].map((at) =>
        paymentInto(number, { sessionId: `at-once-${at}`, amountMinor: 10_000n }),
      ),
    }),
  ])
  const variances = [...paid, ...batch.results].map(({ transaction }) => transaction!.variance)
  expect(variances.filter((each) => each === Variance.NONE)).toHaveLength(1)
  expect(variances.filter((each) => each === Variance.REPEATED)).toHaveLength(22)
  expect(await shop.balance()).toMatchObject({ pendingMinor: 10_000n })
  expect((await shop.account()).terms?.usedAt).toBeDefined()
})

test('payments into permanent and one-time accounts share a batch', async () => {
  const shop = await newBusiness(service)
  const permanent = await shop.open({}, 'permanent')
  const one = await shop.open({ amount: 100 }, 'one-time')
  const payments = Array.from({ length: 30 }, (_, at) =>
    paymentInto(at % 3 === 0 ? one.number : permanent.number, {
      sessionId: `mixed-${at}`,
      amountMinor: BigInt(at % 2 === 0 ? 10_000 : 9_000),
    }),
  )
  const { results } = await transactionsOf(service).recordPayments({ payments })
  expect(results.map(({ transaction }) => transaction?.variance)).toEqual(
    payments.map((_, at) => {
      if (at % 3 !== 0) return Variance.UNSPECIFIED
      return at % 2 === 0 ? Variance.NONE : Variance.UNDERPAID
    }),
  )
  const rows = await service.database.durablePool.query(
    "select from payment_variance v join transaction t on t.id = v.transaction_id where t.session_id like 'mixed-%'",
  )
  expect(rows.rowCount).toBe(10)
})
