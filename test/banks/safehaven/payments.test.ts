import { describe, expect, test } from 'vitest'
import type { SafeHavenTransfer } from '../../../src/banks/safehaven/fake/books.ts'
import { notificationOf, signal, useSafeHaven, VIRTUAL } from './fixture.ts'

const haven = useSafeHaven()
const { start, connector, order } = haven

describe('a requery', () => {
  const paymentOf = (transfer: SafeHavenTransfer) => {
    const reading = connector().read(notificationOf(haven.fake.notification(transfer)))
    if (reading.kind !== 'payment') throw new Error(reading.kind)
    return reading.payment
  }
  const received = () =>
    haven.fake.receive(haven.fake.openAccount('Ada Obi').accountNumber, '180.25')

  test('confirms a payment of either kind of account', async () => {
    const payment = paymentOf(received())
    expect(await connector().requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
    const result = await connector(VIRTUAL).openAccount(order(), signal)
    if (result.kind !== 'opened') throw new Error(result.kind)
    const virtual = paymentOf(haven.fake.receive(result.accountNumber, '12'))
    const confirmed = await connector(VIRTUAL).requery(virtual, signal)
    expect(confirmed).toEqual({ kind: 'confirmed', payment: virtual })
  })

  test('returns the payment as the bank has it, not as it was notified', async () => {
    const transfer = received()
    const payment = { ...paymentOf(transfer), amountMinor: 1n, accountNumber: '0000000000' }
    expect(await connector().requery(payment, signal)).toMatchObject({
      kind: 'confirmed',
      payment: { amountMinor: 18_025n, accountNumber: transfer.accountNumber },
    })
  })

  test('detects a reversal', async () => {
    const transfer = received()
    const payment = paymentOf(transfer)
    transfer.isReversed = true
    expect(await connector().requery(payment, signal)).toEqual({ kind: 'reversed', payment })
  })

  test.each([false, true])('denies an unknown session id', async (rejectsInside200) => {
    const bank = await start({ rejectsInside200 })
    const unknown = { ...paymentOf(received()), bankKey: '0'.repeat(30) }
    const result = await connector({}, { bank }).requery(unknown, signal)
    expect(result).toEqual({ kind: 'denied', cause: '400 Unable to locate record.' })
  })

  test.each([
    ['Pending', 'unknown'],
    ['Failed', 'denied'],
  ])('with status %s is %s', async (status, kind) => {
    const transfer = received()
    const payment = paymentOf(transfer)
    transfer.status = status
    expect((await connector().requery(payment, signal)).kind).toBe(kind)
  })
})

describe('a statement', () => {
  const startMs = 1_700_000_000_000
  const list = async (
    bank: ReturnType<typeof connector>,
    account: { id: string; accountNumber: string },
    page?: string,
  ) =>
    bank.listPayments?.(
      {
        fromMs: startMs,
        toMs: startMs + 250,
        page,
        account: { reference: '', accountNumber: account.accountNumber, bankAccountId: account.id },
      },
      signal,
    )

  test('returns every payment into an account once, page by page', async () => {
    const [account, other] = [haven.fake.openAccount('Ada Obi'), haven.fake.openAccount('Bola Ade')]
    for (let i = 0; i < 260; i++) {
      haven.fake.receive(account.accountNumber, `${i + 1}.01`, { atMs: startMs + i })
    }
    haven.fake.receive(other.accountNumber, '5', { atMs: startMs })
    const bank = connector()
    const pages = []
    let page: string | undefined
    do {
      const listed = await list(bank, account, page)
      pages.push(listed?.payments ?? [])
      page = listed?.next
    } while (page !== undefined)
    expect(pages.map(({ length }) => length)).toEqual([100, 100, 50])
    const amounts = pages.flat().map(({ amountMinor }) => amountMinor)
    expect(amounts).toEqual(Array.from({ length: 250 }, (_, i) => BigInt(i + 1) * 100n + 1n))
    const [first] = pages.flat()
    expect(first).toMatchObject({ accountNumber: account.accountNumber, paidAtMs: startMs })
    expect(await bank.requery(first as never, signal)).toMatchObject({ kind: 'confirmed' })
  })

  test('skips reversed payments, and malformed ones with a warning', async () => {
    const account = haven.fake.openAccount('Ada Obi')
    haven.fake.receive(account.accountNumber, '1', { atMs: startMs }).isReversed = true
    haven.fake.receive(account.accountNumber, '2', { atMs: startMs, sessionId: 'no session' })
    haven.fake.receive(account.accountNumber, '3', { atMs: startMs })
    const bank = connector()
    const listed = await list(bank, account)
    expect(listed).toMatchObject({ payments: [{ amountMinor: 300n }], next: undefined })
    expect(bank.warnings).toEqual([expect.stringContaining('sessionId is "no session"')])
  })
})
