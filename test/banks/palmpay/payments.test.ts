import { describe, expect, test } from 'vitest'
import { startFakePalmPay } from '../../../src/banks/palmpay/fake.ts'
import { notificationOf, signal, usePalmPay } from './fixture.ts'

const palm = usePalmPay()
const { credentials, connector } = palm

describe('a requery', () => {
  const received = (payment = {}) => {
    const { virtualAccountNo } = palm.fake.openAccount('Ada Obi')
    const paid = palm.fake.receive(virtualAccountNo, '180.25', payment)
    const reading = connector().read(notificationOf(palm.fake.notification(paid)))
    if (reading.kind !== 'payment') throw new Error(reading.kind)
    return reading.payment
  }

  test('confirms a payment that the bank has', async () => {
    const payment = received()
    expect(await connector().requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
  })

  test('has an unknown result for an unknown or unpaid order', async () => {
    const payment = received()
    const unknown = { ...payment, bankKey: 'MI0' }
    expect((await connector().requery(unknown, signal)).kind).toBe('unknown')
    const { virtualAccountNo } = palm.fake.openAccount('Ada Obi')
    const pending = palm.fake.receive(virtualAccountNo, '1', { orderStatus: 0n })
    const reported = { ...payment, bankKey: pending.orderNo }
    expect((await connector().requery(reported, signal)).kind).toBe('unknown')
  })
})

describe('listing payments', () => {
  test('returns every payment of a period once, page by page', async () => {
    const bank = await startFakePalmPay({ port: 0, credentials })
    const { virtualAccountNo } = bank.openAccount('Ada Obi')
    const start = 1_700_000_000_000
    for (let i = 0; i < 130; i++) {
      const orderStatus = i % 10 === 0 ? 2n : 1n
      bank.receive(virtualAccountNo, `${i + 1}`, { atMs: start + i, orderStatus })
    }
    const { listPayments, listing } = connector({}, bank.url)
    expect(listing).toBe('by bank')
    const amounts: bigint[] = []
    const sizes: number[] = []
    let page: string | undefined
    do {
      const period = { fromMs: start, toMs: start + 120, page, account: undefined }
      const listed = await listPayments?.(period, signal)
      sizes.push(listed?.payments.length ?? 0)
      amounts.push(...(listed?.payments.map(({ amountMinor }) => amountMinor) ?? []))
      page = listed?.next
    } while (page !== undefined)
    const expected = Array.from({ length: 120 }, (_, i) => i).filter((i) => i % 10 !== 0)
    expect(amounts).toEqual(expected.map((i) => BigInt(i + 1) * 100n))
    expect(sizes).toEqual([45, 45, 18])
    await bank.close()
  })

  test('skips malformed orders with a warning', async () => {
    const bank = await startFakePalmPay({ port: 0, credentials })
    const { virtualAccountNo } = bank.openAccount('Ada Obi')
    bank.receive(virtualAccountNo, '1', { atMs: 1, sessionId: 'no session' })
    bank.receive(virtualAccountNo, '2', { atMs: 1 })
    const connected = connector({}, bank.url)
    const period = { fromMs: 0, toMs: 10, page: undefined, account: undefined }
    const listed = await connected.listPayments?.(period, signal)
    expect(listed?.payments.map(({ amountMinor }) => amountMinor)).toEqual([200n])
    expect(connected.warnings).toEqual([expect.stringContaining('sessionId is "no session"')])
    await bank.close()
  })
})
