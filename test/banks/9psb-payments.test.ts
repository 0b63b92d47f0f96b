import { describe, expect, onTestFinished, test } from 'vitest'
import type { NinePsbFault } from '../../src/banks/9psb/fake.ts'
import type { BankPayment, NotificationOutcome } from '../../src/banks/bank.ts'
import { BankUnreachableError, NotListedError } from '../../src/banks/http/bank-http.ts'
import { startReceiver } from '../support/receiver.ts'
import { ninePsbFixture } from './9psb-fixture.ts'
import { abortedOnce, bankNotification, bankPayment, signal } from './fixture.ts'

async function notifiedFixture() {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const fixture = await ninePsbFixture({
    notify: `${receiver.url}/n`,
    retryDelaysMs: [1, 1, 1, 1, 1],
  })
  const { accountNumber, reference } = fixture.bank.openAccount('Ada Obi', 'R-1')
  /** The payment that the connector reads from the request with this index. */
  const readAt = (index: number): BankPayment => {
    const { rawBody, headers } = receiver.requests[index] ?? { rawBody: '', headers: {} }
    const { authorization } = headers
    const reading = fixture.connector.read(bankNotification(rawBody, { authorization }))
    if (reading.kind !== 'payment') throw new Error(`read ${JSON.stringify(reading)}`)
    return reading.payment
  }
  const acknowledge = (outcome: NotificationOutcome) => {
    const { status, body, contentType } = fixture.connector.acknowledge(
      outcome,
      bankNotification('', {}),
    )
    receiver.answer({ status, body, headers: { 'content-type': contentType } })
  }
  return { ...fixture, receiver, accountNumber, reference, readAt, acknowledge }
}

describe('the bank', () => {
  test.each<NotificationOutcome>([
    'RECORDED',
    'DUPLICATE',
    'UNMATCHED',
    'MANUAL_REVIEW',
    'IGNORED',
  ])('notifies once if the outcome is %s', async (outcome) => {
    const { bank, receiver, accountNumber, acknowledge } = await notifiedFixture()
    acknowledge(outcome)
    expect(await bank.pay(accountNumber, '120.50')).toMatchObject({ acknowledged: true })
    expect(receiver.requests).toHaveLength(1)
  })

  test.each<NotificationOutcome>(['RETRY', 'UNCONFIRMED', 'UNAUTHENTICATED'])(
    'notifies six times if the outcome is %s',
    async (outcome) => {
      const { bank, receiver, accountNumber, acknowledge } = await notifiedFixture()
      acknowledge(outcome)
      expect(await bank.pay(accountNumber, '120.50')).toMatchObject({ acknowledged: false })
      expect(receiver.requests).toHaveLength(6)
    },
  )

  test('gets a response in its own format', async () => {
    const { connector } = await ninePsbFixture()
    const notification = bankNotification('', {})
    expect(connector.acknowledge('RECORDED', notification)).toEqual({
      status: 200,
      contentType: 'application/json',
      body: '{"code":"00","message":"Success"}',
    })
    expect(connector.acknowledge('UNAUTHENTICATED', notification).status).toBe(401)
  })
})

describe('a requery', () => {
  test('confirms the payment as the bank has it', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await notifiedFixture()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '9999999999999.99')
    const payment = readAt(0)
    expect(payment.amountMinor).toBe(999_999_999_999_999n)
    expect(await connector.requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
  })

  test('confirms payments that are notified late and out of order', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await notifiedFixture()
    acknowledge('RECORDED')
    const received = ['0.1', '0.2', '0.30'].map((amount) => bank.receive(accountNumber, amount))
    for (const transaction of [...received].reverse()) await bank.notify(transaction)
    const read = [0, 1, 2].map(readAt)
    expect(read.map(({ amountMinor }) => amountMinor)).toEqual([30n, 20n, 10n])
    for (const payment of read) {
      expect(await connector.requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
    }
  })

  test('denies a replay with another session id and a valid hash', async () => {
    const { bank, connector, accountNumber, receiver, acknowledge } = await notifiedFixture()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '120.5')
    const [genuine] = receiver.requests
    const { sessionId } = bank.transactions[0] ?? { sessionId: '' }
    const replay = bankNotification(String(genuine?.rawBody).replace(sessionId, `${sessionId}1`), {
      authorization: genuine?.headers.authorization,
    })
    const reading = connector.read(replay)
    expect(reading.kind).toBe('payment')
    const { payment } = reading as { payment: BankPayment }
    expect((await connector.requery(payment, signal)).kind).toBe('denied')
  })

  test('returns the payment as the bank has it, not as it was notified', async () => {
    const { bank, connector, accountNumber } = await notifiedFixture()
    const { sessionId } = bank.receive(accountNumber, '120')
    const reported = bankPayment({
      sessionId,
      bankKey: sessionId,
      accountNumber,
      amountMinor: 1_200_000n,
    })
    expect(await connector.requery(reported, signal)).toMatchObject({
      kind: 'confirmed',
      payment: { amountMinor: 12_000n },
    })
  })

  test('denies the payment for another account', async () => {
    const { bank, connector, accountNumber } = await notifiedFixture()
    const { sessionId } = bank.receive(accountNumber, '120')
    const other = bank.openAccount('Other').accountNumber
    const reported = bankPayment({ sessionId, bankKey: sessionId, accountNumber: other })
    expect((await connector.requery(reported, signal)).kind).toBe('denied')
  })

  test('confirms a payment once the bank knows it', async () => {
    const { bank, connector, accountNumber } = await notifiedFixture()
    const { sessionId } = bank.receive(accountNumber, '120')
    const reported = bankPayment({ sessionId, bankKey: sessionId, accountNumber })
    bank.faults.add('confirm', 'not found')
    expect((await connector.requery(reported, signal)).kind).toBe('denied')
    expect((await connector.requery(reported, signal)).kind).toBe('confirmed')
  })

  test.each<NinePsbFault>(['500', '500 after', 'cut', 'page', '99'])(
    'has an unknown result after %s',
    async (fault) => {
      const { bank, connector, accountNumber } = await notifiedFixture()
      const { sessionId } = bank.receive(accountNumber, '120')
      bank.faults.add('confirm', fault)
      const reported = bankPayment({ sessionId, bankKey: sessionId, accountNumber })
      expect((await connector.requery(reported, signal)).kind).toBe('unknown')
    },
  )

  test('has an unknown result after a timeout', async () => {
    const { bank, connector, accountNumber } = await notifiedFixture()
    const { sessionId } = bank.receive(accountNumber, '120')
    bank.faults.add('confirm', 'hang')
    const reported = bankPayment({ sessionId, bankKey: sessionId, accountNumber })
    const result = await abortedOnce(
      () => bank.requests.confirm === 1,
      (abort) => connector.requery(reported, abort),
    )
    expect(result.kind).toBe('unknown')
  })
})

describe('the payments of an account', () => {
  const HOUR_MS = 3_600_000
  const START_MS = Date.UTC(2026, 10, 20)

  test('are listed by period, the latest ten', async () => {
    const { bank, connector, accountNumber, reference } = await notifiedFixture()
    for (let hour = 0; hour < 12; hour++) {
      bank.receive(accountNumber, `${hour + 1}`, { atMs: START_MS + hour * HOUR_MS })
    }
    bank.receive(bank.openAccount('Other', 'R-2').accountNumber, '77', { atMs: START_MS })
    const account = { accountNumber, reference, bankAccountId: '' }
    const list = async (fromHour: number, toHour: number) => {
      const fromMs = START_MS + fromHour * HOUR_MS
      const toMs = START_MS + toHour * HOUR_MS
      const page = await connector.listPayments?.(
        { fromMs, toMs, page: undefined, account },
        signal,
      )
      expect(page?.next).toBeUndefined()
      return page?.payments.map(({ amountMinor }) => Number(amountMinor) / 100)
    }
    expect(connector.listing).toBe('by account')
    expect(await list(0, 24)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3])
    expect(await list(5, 7)).toEqual([7, 6])
    expect(await list(24, 48)).toEqual([])
  })

  test.each<NinePsbFault>(['500', 'cut', '99'])('are not listed with %s', async (fault) => {
    const { bank, connector, accountNumber, reference } = await notifiedFixture()
    bank.faults.add('confirm', fault)
    const account = { accountNumber, reference, bankAccountId: '' }
    const listing = { fromMs: 0, toMs: START_MS, page: undefined, account }
    const kind = fault === '99' ? NotListedError : BankUnreachableError
    await expect(connector.listPayments?.(listing, signal)).rejects.toThrow(kind)
  })
})
