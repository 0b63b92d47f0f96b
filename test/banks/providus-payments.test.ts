import { describe, expect, onTestFinished, test } from 'vitest'
import type { BankPayment, NotificationOutcome } from '../../src/banks/bank.ts'
import type { ProvidusFault } from '../../src/fake-banks/providus/providus.ts'
import { startReceiver } from '../support/receiver.ts'
import { aNotification, aPayment, givenUpOnce, signal } from './live.ts'
import { aProvidus } from './providus-scene.ts'

async function aNotified(env: Readonly<Record<string, string>> = {}) {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const scene = await aProvidus({ notify: `${receiver.url}/n`, retryDelaysMs: [1, 1, 1, 1] }, env)
  const { accountNumber } = scene.bank.openAccount('Ada Obi')
  /** What the connector reads of the request that came as the `index`th. */
  const readAt = (index: number): BankPayment => {
    const request = receiver.requests[index]
    const headers = { 'x-auth-signature': String(request?.headers['x-auth-signature']) }
    const reading = scene.connector.read(aNotification(request?.rawBody ?? '', headers))
    if (reading.kind !== 'payment') throw new Error(`read ${JSON.stringify(reading)}`)
    return reading.payment
  }
  const acknowledge = (outcome: NotificationOutcome) =>
    receiver.answer(({ rawBody }) => {
      const { status, body } = scene.connector.acknowledge(outcome, aNotification(rawBody, {}))
      return { status, body }
    })
  return { ...scene, receiver, accountNumber, readAt, acknowledge }
}

describe('the bank', () => {
  test.each<[NotificationOutcome, string, string]>([
    ['RECORDED', '00', 'success'],
    ['UNMATCHED', '00', 'success'],
    ['MANUAL_REVIEW', '00', 'success'],
    ['IGNORED', '00', 'success'],
    ['DUPLICATE', '01', 'duplicate transaction'],
  ])('tells once of a payment that is %s, and hears %s', async (outcome, code, message) => {
    const { bank, receiver, accountNumber, acknowledge } = await aNotified()
    acknowledge(outcome)
    const delivered = await bank.pay(accountNumber, '120.50')
    expect(delivered.acknowledged).toBe(true)
    expect(receiver.requests).toHaveLength(1)
    expect(JSON.parse(String(delivered.answers[0]?.text))).toEqual({
      requestSuccessful: true,
      sessionId: bank.transactions[0]?.sessionId,
      responseMessage: message,
      responseCode: code,
    })
    expect(bank.transactions[0]?.standing).toBe('acknowledged')
  })

  test.each<NotificationOutcome>(['RETRY', 'UNCONFIRMED', 'UNAUTHENTICATED'])(
    'tells five times of a payment that is answered with %s, and gives no money up',
    async (outcome) => {
      const { bank, receiver, accountNumber, acknowledge } = await aNotified()
      acknowledge(outcome)
      expect((await bank.pay(accountNumber, '120.50')).acknowledged).toBe(false)
      expect(receiver.requests).toHaveLength(5)
      expect(bank.transactions[0]?.standing).toBe('waiting')
    },
  )

  test('hears of a rejection for good only where an operator set that, for what it denies', async () => {
    const { bank, receiver, accountNumber, acknowledge } = await aNotified({
      BANK_PROVIDUS_DENIED_CODE: '02',
    })
    acknowledge('UNCONFIRMED')
    await bank.pay(accountNumber, '120.50')
    expect(receiver.requests).toHaveLength(1)
    expect(bank.transactions[0]?.standing).toBe('rejected')
    acknowledge('RETRY')
    await bank.pay(accountNumber, '120.50')
    expect(bank.transactions[1]?.standing).toBe('waiting')
  })

  test('says nothing of theirs to whoever is not the bank', async () => {
    const { connector } = await aProvidus()
    const answer = connector.acknowledge(
      'UNAUTHENTICATED',
      aNotification('{"sessionId":"theirs"}', {}),
    )
    expect(answer.status).toBe(401)
    expect(answer.body).not.toContain('theirs')
  })
})

describe('a payment is asked for again', () => {
  test('by its settlement id, and confirmed', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await aNotified()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '9999999999999.99')
    const payment = readAt(0)
    expect(payment.amountMinor).toBe(999_999_999_999_999n)
    // The bank of the payer is in requeries alone.
    const payer = { ...payment.payer, bankCode: '000004' }
    expect(await connector.requery(payment, signal)).toEqual({
      kind: 'confirmed',
      payment: { ...payment, payer },
    })
    expect(bank.requests).toMatchObject({ settlement: 1, session: 0 })
  })

  test('with what it calls nothing, late and out of order too', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await aNotified()
    acknowledge('RECORDED')
    const nobody = { sourceAccountName: '', sourceAccountNumber: '' }
    const received = ['0.1', '0.2', '0.30'].map((amount) =>
      bank.receive(accountNumber, amount, nobody),
    )
    for (const transaction of [...received].reverse()) await bank.notify(transaction)
    const read = [0, 1, 2].map(readAt)
    expect(read.map(({ amountMinor }) => amountMinor)).toEqual([30n, 20n, 10n])
    for (const payment of read) {
      expect(await connector.requery(payment, signal)).toMatchObject({
        kind: 'confirmed',
        payment: { amountMinor: payment.amountMinor, payer: { name: '', accountNumber: '' } },
      })
    }
  })

  const received = async (env: Readonly<Record<string, string>> = {}) => {
    const scene = await aNotified(env)
    const { sessionId, settlementId } = scene.bank.receive(scene.accountNumber, '120')
    const { accountNumber } = scene
    return { ...scene, told: aPayment({ sessionId, bankKey: settlementId, accountNumber }) }
  }

  test.each<ProvidusFault>(['not found', '500', '500 after', 'cut', 'page', '03'])(
    'by its session id, when by settlement there is %s',
    async (fault) => {
      const { bank, connector, told } = await received()
      bank.faults.add('settlement', fault)
      expect(await connector.requery(told, signal)).toMatchObject({
        kind: 'confirmed',
        payment: { bankKey: told.bankKey, amountMinor: 12_000n },
      })
    },
  )

  test('and nothing is known, nor asked further, when no answer comes in time', async () => {
    const { bank, connector, told } = await received()
    bank.faults.add('settlement', 'hang')
    const result = await givenUpOnce(
      () => bank.requests.settlement === 1,
      (until) => connector.requery(told, until),
    )
    expect(result.kind).toBe('unknown')
    expect(bank.requests.session).toBe(0)
  })

  test('by its session id, where the other path is not served', async () => {
    const { connector, told } = await received({ BANK_PROVIDUS_VERIFY_SETTLEMENT_PATH: 'PiPnone' })
    expect((await connector.requery(told, signal)).kind).toBe('confirmed')
  })

  test('and denied when the bank finds neither', async () => {
    const { bank, connector, told } = await received()
    const madeUp = { ...told, bankKey: '1', sessionId: '2' }
    expect(await connector.requery(madeUp, signal)).toMatchObject({
      kind: 'denied',
      cause: expect.stringContaining('Transaction not found'),
    })
    expect(bank.requests).toMatchObject({ settlement: 1, session: 1 })
  })

  test.each([400, 404])('and denied when it finds neither, in HTTP %i', async (notFoundStatus) => {
    const { connector } = await aProvidus({ notFoundStatus })
    expect((await connector.requery(aPayment({ bankKey: '1' }), signal)).kind).toBe('denied')
  })

  test('and denied when a true session comes with another settlement, or the reverse', async () => {
    const { connector, told } = await received()
    const otherSettlement = { ...told, bankKey: `${told.bankKey}1` }
    expect((await connector.requery(otherSettlement, signal)).kind).toBe('denied')
    const otherSession = { ...told, sessionId: `${told.sessionId}1` }
    expect((await connector.requery(otherSession, signal)).kind).toBe('denied')
  })

  test('and what the bank has otherwise is confirmed as the bank has it', async () => {
    const { connector, told } = await received()
    const more = { ...told, amountMinor: 1_200_000n, accountNumber: '0000000000' }
    expect(await connector.requery(more, signal)).toMatchObject({
      kind: 'confirmed',
      payment: { amountMinor: 12_000n, accountNumber: told.accountNumber },
    })
  })

  test('and confirmed by its settlement alone where it has no session', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await aNotified()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '120', { sessionId: '' })
    const payment = readAt(0)
    expect(payment.sessionId).toBe(payment.bankKey)
    expect(await connector.requery(payment, signal)).toMatchObject({ kind: 'confirmed' })
    expect(bank.requests.session).toBe(0)
  })

  test('and nothing is known while neither question has an answer, or only one says no', async () => {
    const { bank, connector, told } = await received()
    bank.faults.add('settlement', '500', 2)
    bank.faults.add('session', '500')
    expect((await connector.requery(told, signal)).kind).toBe('unknown')
    bank.faults.add('session', 'not found')
    expect((await connector.requery(told, signal)).kind).toBe('unknown')
    expect((await connector.requery(told, signal)).kind).toBe('confirmed')
  })
})
