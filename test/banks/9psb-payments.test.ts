import { describe, expect, onTestFinished, test } from 'vitest'
import type { BankPayment, NotificationOutcome } from '../../src/banks/bank.ts'
import { BankUnreachable, NotListed } from '../../src/banks/http/bank-http.ts'
import type { NinePsbFault } from '../../src/fake-banks/9psb/9psb.ts'
import { startReceiver } from '../support/receiver.ts'
import { aNinePsb } from './9psb-scene.ts'
import { aNotification, aPayment, givenUpOnce, signal } from './live.ts'

async function aNotified() {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const scene = await aNinePsb({ notify: `${receiver.url}/n`, retryDelaysMs: [1, 1, 1, 1, 1] })
  const { accountNumber, reference } = scene.bank.openAccount('Ada Obi', 'R-1')
  /** What the connector reads of the request that came as the `index`th. */
  const readAt = (index: number): BankPayment => {
    const { rawBody, headers } = receiver.requests[index] ?? { rawBody: '', headers: {} }
    const { authorization } = headers
    const reading = scene.connector.read(aNotification(rawBody, { authorization }))
    if (reading.kind !== 'payment') throw new Error(`read ${JSON.stringify(reading)}`)
    return reading.payment
  }
  const acknowledge = (outcome: NotificationOutcome) => {
    const { status, body, contentType } = scene.connector.acknowledge(
      outcome,
      aNotification('', {}),
    )
    receiver.answer({ status, body, headers: { 'content-type': contentType } })
  }
  return { ...scene, receiver, accountNumber, reference, readAt, acknowledge }
}

describe('the bank', () => {
  test.each<NotificationOutcome>([
    'RECORDED',
    'DUPLICATE',
    'UNMATCHED',
    'MANUAL_REVIEW',
    'IGNORED',
  ])('tells once of a payment that is %s', async (outcome) => {
    const { bank, receiver, accountNumber, acknowledge } = await aNotified()
    acknowledge(outcome)
    expect(await bank.pay(accountNumber, '120.50')).toMatchObject({ acknowledged: true })
    expect(receiver.requests).toHaveLength(1)
  })

  test.each<NotificationOutcome>(['RETRY', 'UNCONFIRMED', 'UNAUTHENTICATED'])(
    'tells six times of a payment that is answered with %s',
    async (outcome) => {
      const { bank, receiver, accountNumber, acknowledge } = await aNotified()
      acknowledge(outcome)
      expect(await bank.pay(accountNumber, '120.50')).toMatchObject({ acknowledged: false })
      expect(receiver.requests).toHaveLength(6)
    },
  )

  test('is answered in its own words', async () => {
    const { connector } = await aNinePsb()
    const notification = aNotification('', {})
    expect(connector.acknowledge('RECORDED', notification)).toEqual({
      status: 200,
      contentType: 'application/json',
      body: '{"code":"00","message":"Success"}',
    })
    expect(connector.acknowledge('UNAUTHENTICATED', notification).status).toBe(401)
  })
})

describe('a payment is asked for again', () => {
  test('and confirmed as the bank has it', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await aNotified()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '9999999999999.99')
    const payment = readAt(0)
    expect(payment.amountMinor).toBe(999_999_999_999_999n)
    expect(await connector.requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
  })

  test('late and out of order too', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await aNotified()
    acknowledge('RECORDED')
    const received = ['0.1', '0.2', '0.30'].map((amount) => bank.receive(accountNumber, amount))
    for (const transaction of [...received].reverse()) await bank.notify(transaction)
    const read = [0, 1, 2].map(readAt)
    expect(read.map(({ amountMinor }) => amountMinor)).toEqual([30n, 20n, 10n])
    for (const payment of read) {
      expect(await connector.requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
    }
  })

  test('and a replay with another session id, whose hash is right, is denied', async () => {
    const { bank, connector, accountNumber, receiver, acknowledge } = await aNotified()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '120.5')
    const [genuine] = receiver.requests
    const { sessionId } = bank.transactions[0] ?? { sessionId: '' }
    const replay = aNotification(String(genuine?.rawBody).replace(sessionId, `${sessionId}1`), {
      authorization: genuine?.headers.authorization,
    })
    const reading = connector.read(replay)
    expect(reading.kind).toBe('payment')
    const { payment } = reading as { payment: BankPayment }
    expect((await connector.requery(payment, signal)).kind).toBe('denied')
  })

  test('and what the bank has otherwise is confirmed as the bank has it, not as it was told', async () => {
    const { bank, connector, accountNumber } = await aNotified()
    const { sessionId } = bank.receive(accountNumber, '120')
    const told = aPayment({ sessionId, bankKey: sessionId, accountNumber, amountMinor: 1_200_000n })
    expect(await connector.requery(told, signal)).toMatchObject({
      kind: 'confirmed',
      payment: { amountMinor: 12_000n },
    })
  })

  test('and denied for another account', async () => {
    const { bank, connector, accountNumber } = await aNotified()
    const { sessionId } = bank.receive(accountNumber, '120')
    const other = bank.openAccount('Other').accountNumber
    const told = aPayment({ sessionId, bankKey: sessionId, accountNumber: other })
    expect((await connector.requery(told, signal)).kind).toBe('denied')
  })

  test('and what the bank does not know yet is confirmed when it does', async () => {
    const { bank, connector, accountNumber } = await aNotified()
    const { sessionId } = bank.receive(accountNumber, '120')
    const told = aPayment({ sessionId, bankKey: sessionId, accountNumber })
    bank.faults.add('confirm', 'not found')
    expect((await connector.requery(told, signal)).kind).toBe('denied')
    expect((await connector.requery(told, signal)).kind).toBe('confirmed')
  })

  test.each<NinePsbFault>(['500', '500 after', 'cut', 'page', '99'])(
    'and nothing is known with %s',
    async (fault) => {
      const { bank, connector, accountNumber } = await aNotified()
      const { sessionId } = bank.receive(accountNumber, '120')
      bank.faults.add('confirm', fault)
      const told = aPayment({ sessionId, bankKey: sessionId, accountNumber })
      expect((await connector.requery(told, signal)).kind).toBe('unknown')
    },
  )

  test('and nothing is known when no answer comes in time', async () => {
    const { bank, connector, accountNumber } = await aNotified()
    const { sessionId } = bank.receive(accountNumber, '120')
    bank.faults.add('confirm', 'hang')
    const told = aPayment({ sessionId, bankKey: sessionId, accountNumber })
    const result = await givenUpOnce(
      () => bank.requests.confirm === 1,
      (until) => connector.requery(told, until),
    )
    expect(result.kind).toBe('unknown')
  })
})

describe('the payments of an account', () => {
  const HOUR_MS = 3_600_000
  const START_MS = Date.UTC(2026, 10, 20)

  test('are listed by period, the latest ten', async () => {
    const { bank, connector, accountNumber, reference } = await aNotified()
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
    const { bank, connector, accountNumber, reference } = await aNotified()
    bank.faults.add('confirm', fault)
    const account = { accountNumber, reference, bankAccountId: '' }
    const listing = { fromMs: 0, toMs: START_MS, page: undefined, account }
    const kind = fault === '99' ? NotListed : BankUnreachable
    await expect(connector.listPayments?.(listing, signal)).rejects.toThrow(kind)
  })
})
