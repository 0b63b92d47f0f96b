import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Fault } from '../../src/core/errors.ts'
import { createPaymentCounter } from '../../src/transactions/count-payments.ts'
import { scrape } from '../ops/scrape.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { openAccount, paymentInto, transactionsOf } from './fixture.ts'

const service = useService()

test('money counts once, when it arrives: not when it is announced, and not when it is reported again', async () => {
  const { number } = await openAccount(service)
  const { recordPayment } = transactionsOf(service)
  const announced = { sessionId: 'announced', amountMinor: 900n }
  await recordPayment(paymentInto(number, { ...announced, status: TransactionStatus.PENDING }))
  const arrived = { sessionId: 'arrived', amountMinor: 7_000n }
  for (const _report of [1, 2]) await recordPayment(paymentInto(number, arrived))
  await waitFor(async () => {
    const { value } = await scrape(service.httpUrl)
    const payments = (outcome: string) =>
      value(`inflow_payments_total{outcome="${outcome}",bank="9PSB",mode="live"}`)
    expect([payments('RECORDED'), payments('DUPLICATE')]).toEqual([2, 1])
    expect(value('inflow_payment_amount_kobo_total{bank="9PSB",mode="live"}')).toBe(7_000)
  })
  await recordPayment(paymentInto(number, { ...announced, status: TransactionStatus.SUCCESS }))
  await waitFor(async () => {
    const { value } = await scrape(service.httpUrl)
    expect(value('inflow_payment_amount_kobo_total{bank="9PSB",mode="live"}')).toBe(7_900)
  })
})

test.each([
  ['UNAVAILABLE', new Fault('unavailable', 'The database does not respond.')],
  ['UNAVAILABLE', new Error('Connection terminated unexpectedly')],
  ['REFUSED', new Fault('internal', 'A fault of ours.')],
  ['REFUSED', Object.assign(new Error('a constraint'), { code: '23514' })],
])('a report without a result counts as %s: %s', async (outcome, error) => {
  const registry = new Registry()
  createPaymentCounter(registry).failed('PROVIDUS', error)
  const lines = (await registry.metrics()).split('\n')
  const counted = lines.filter((line) => /^inflow_payments_total\{.* 1$/.test(line))
  expect(counted).toEqual([
    `inflow_payments_total{outcome="${outcome}",bank="PROVIDUS",mode="unknown"} 1`,
  ])
})
