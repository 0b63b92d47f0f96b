import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { Fault } from '../../src/core/errors.ts'
import { createPaymentCounter } from '../../src/transactions/count-payments.ts'
import type { RecordResult } from '../../src/transactions/transaction.ts'

/** The series that are not zero. */
async function counted(registry: Registry): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n')
  return lines.filter((line) => /^inflow_.* [1-9]\d*$/.test(line))
}

test('money counts once, when it arrives: not when it is announced, and not when it is reported again', async () => {
  const registry = new Registry()
  const { processed } = createPaymentCounter(registry)
  const report = (outcome: RecordResult['outcome'], status: string, amountMinor: bigint) =>
    processed('9PSB', {
      outcome,
      transaction: { status, amountMinor, account: { live: true } },
    } as RecordResult)
  report('RECORDED', 'PENDING', 900n)
  report('RECORDED', 'SUCCESS', 7_000n)
  report('DUPLICATE', 'SUCCESS', 7_000n)
  report('RECORDED', 'SUCCESS', 900n)
  expect(await counted(registry)).toEqual([
    'inflow_payments_total{outcome="RECORDED",bank="9PSB",mode="live"} 3',
    'inflow_payments_total{outcome="DUPLICATE",bank="9PSB",mode="live"} 1',
    'inflow_payment_amount_kobo_total{bank="9PSB",mode="live"} 7900',
  ])
})

test.each([
  ['UNAVAILABLE', new Fault('unavailable', 'The database does not respond.')],
  ['UNAVAILABLE', new Error('Connection terminated unexpectedly')],
  ['REFUSED', new Fault('internal', 'A fault of ours.')],
  ['REFUSED', Object.assign(new Error('a constraint'), { code: '23514' })],
])('a report without a result counts as %s: %s', async (outcome, error) => {
  const registry = new Registry()
  createPaymentCounter(registry).failed('PROVIDUS', error)
  expect(await counted(registry)).toEqual([
    `inflow_payments_total{outcome="${outcome}",bank="PROVIDUS",mode="unknown"} 1`,
  ])
})
