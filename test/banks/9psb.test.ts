import { describe, expect, onTestFinished, test } from 'vitest'
import type { NinePsbFault } from '../../src/banks/9psb/fake.ts'
import type { BankPayment, NotificationOutcome } from '../../src/banks/bank.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { startReceiver } from '../support/receiver.ts'
import { ninePsbFixture } from './9psb-fixture.ts'
import { accountOrder, bankNotification, bankPayment, signal } from './fixture.ts'

describe('opening an account', () => {
  test('returns the number that the bank opened with our reference and name', async () => {
    const { bank, connector } = await ninePsbFixture()
    const result = await connector.openAccount(accountOrder(), signal)
    const [account] = bank.accounts.values()
    expect(account).toMatchObject({ reference: accountOrder().reference, name: 'Acme/Ada Obi' })
    expect(result).toEqual({
      kind: 'opened',
      accountNumber: account?.accountNumber,
      accountName: 'Acme/Ada Obi',
      bankAccountId: '',
    })
  })

  test.each([200, 401])(
    'authenticates once more when the token has expired (HTTP %i)',
    async (errorStatus) => {
      const { bank, connector } = await ninePsbFixture({ errorStatus })
      await connector.openAccount(accountOrder({ reference: 'R-0' }), signal)
      bank.expireTokens()
      const results = await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          connector.openAccount(accountOrder({ reference: `R-${i + 1}` }), signal),
        ),
      )
      expect(results.every(({ kind }) => kind === 'opened')).toBe(true)
      expect(bank.requests.authenticate).toBe(2)
      expect(bank.accounts.size).toBe(11)
    },
  )

  test('sends the operator’s fields, but keeps our reference and name', async () => {
    const BANK_9PSB_CREATE_FIELDS = JSON.stringify({
      transaction: { reference: 'theirs' },
      customer: { account: { name: 'theirs' } },
      order: { amounttype: 'WRONG' },
    })
    const { bank, connector } = await ninePsbFixture({}, { BANK_9PSB_CREATE_FIELDS })
    const rejected = await connector.openAccount(accountOrder(), signal)
    expect(rejected).toMatchObject({
      kind: 'unavailable',
      cause: expect.stringContaining('amounttype is invalid'),
    })
    const fixed = { BANK_9PSB_CREATE_FIELDS: BANK_9PSB_CREATE_FIELDS.replace('WRONG', 'EXACT') }
    const other = await ninePsbFixture({}, fixed)
    expect((await other.connector.openAccount(accountOrder(), signal)).kind).toBe('opened')
    expect([...other.bank.accounts.values()]).toMatchObject([
      { reference: accountOrder().reference, name: 'Acme/Ada Obi' },
    ])
    expect(bank.accounts.size).toBe(0)
  })
})

describe('a failed opening', () => {
  test.each<[NinePsbFault, number]>([
    ['99', 0],
    ['99 after', 1],
  ])('with %s has an unknown result and can be retried', async (fault, opened) => {
    const { bank, connector } = await ninePsbFixture()
    bank.faults.add('create', fault)
    const result = await connector.openAccount(accountOrder(), signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'retry' })
    expect(bank.accounts.size).toBe(opened)

    const retried = await connector.openAccount(
      accountOrder({ attempt: 2, repeated: true }),
      signal,
    )
    expect(retried).toMatchObject(
      opened === 0 ? { kind: 'opened' } : { kind: 'unknown', next: 'manual review' },
    )
    expect(bank.accounts.size).toBe(1)
  })

  test('with no bank opens nothing; the result of an earlier attempt stays unknown', async () => {
    const { bank, connector } = await ninePsbFixture()
    await bank.close()
    expect((await connector.openAccount(accountOrder(), signal)).kind).toBe('unavailable')
    const second = await connector.openAccount(accountOrder({ attempt: 2, repeated: true }), signal)
    expect(second).toMatchObject({ kind: 'unknown', next: 'retry' })
  })

  test('with a reference that was used needs manual review', async () => {
    const { bank, connector } = await ninePsbFixture()
    bank.openAccount('Other Customer', accountOrder().reference)
    const result = await connector.openAccount(accountOrder(), signal)
    expect(result).toMatchObject({
      kind: 'unknown',
      next: 'manual review',
      cause: expect.stringContaining('reference number must be unique'),
    })
    expect(bank.accounts.size).toBe(1)
  })
})

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
  test.each<[number, readonly NotificationOutcome[]]>([
    [1, ['RECORDED', 'DUPLICATE', 'UNMATCHED', 'MANUAL_REVIEW', 'IGNORED']],
    [6, ['RETRY', 'UNCONFIRMED', 'UNAUTHENTICATED']],
  ])('notifies %i times of the outcomes %j', async (times, outcomes) => {
    for (const outcome of outcomes) {
      const { bank, receiver, accountNumber, acknowledge } = await notifiedFixture()
      acknowledge(outcome)
      const { acknowledged } = await bank.pay(accountNumber, '120.50')
      expect([outcome, acknowledged, receiver.requests.length]).toEqual([
        outcome,
        times === 1,
        times,
      ])
    }
  })

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
})

describe('the payments of an account', () => {
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
})
