import { describe, expect, onTestFinished, test } from 'vitest'
import type { BankPayment, NotificationOutcome } from '../../src/banks/bank.ts'
import type { ProvidusFault } from '../../src/banks/providus/fake.ts'
import { startReceiver } from '../support/receiver.ts'
import { accountOrder, bankNotification, bankPayment, signal } from './fixture.ts'
import { providusFixture } from './providus-fixture.ts'

const order = accountOrder({ bank: 'PROVIDUS' })

describe('opening an account', () => {
  test('returns the number and the name that the bank opened', async () => {
    const { bank, connector } = await providusFixture()
    const result = await connector.openAccount(order, signal)
    const [account] = bank.accounts.values()
    expect(result).toEqual({
      kind: 'opened',
      accountNumber: account?.accountNumber,
      accountName: 'MERCHANT(Acme/Ada Obi)',
      bankAccountId: '',
    })
  })

  test('sends the operator’s fields, but keeps our account name', async () => {
    const fields = { account_name: 'theirs', bvn: '22222222222' }
    const env = { BANK_PROVIDUS_CREATE_FIELDS: JSON.stringify(fields) }
    const { bank, connector } = await providusFixture({}, env)
    await connector.openAccount(order, signal)
    expect([...bank.accounts.values()]).toMatchObject([{ accountName: 'MERCHANT(Acme/Ada Obi)' }])
  })

  test('is never retried automatically', async () => {
    const { bank, connector } = await providusFixture()
    const result = await connector.openAccount({ ...order, attempt: 2, repeated: true }, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
    expect(bank.requests.create).toBe(0)
  })
})

test('does not close accounts: the bank would stop notifying their payments', async () => {
  const { connector } = await providusFixture()
  expect(connector.closeAccount).toBeUndefined()
  expect(connector.listing).toBeUndefined()
})

async function notifiedFixture(env: Readonly<Record<string, string>> = {}) {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const fixture = await providusFixture(
    { notify: `${receiver.url}/n`, retryDelaysMs: [1, 1, 1, 1] },
    env,
  )
  const { accountNumber } = fixture.bank.openAccount('Ada Obi')
  /** The payment that the connector reads from the request with this index. */
  const readAt = (index: number): BankPayment => {
    const request = receiver.requests[index]
    const headers = { 'x-auth-signature': String(request?.headers['x-auth-signature']) }
    const reading = fixture.connector.read(bankNotification(request?.rawBody ?? '', headers))
    if (reading.kind !== 'payment') throw new Error(`read ${JSON.stringify(reading)}`)
    return reading.payment
  }
  const acknowledge = (outcome: NotificationOutcome) =>
    receiver.answer(({ rawBody }) => {
      const { status, body } = fixture.connector.acknowledge(outcome, bankNotification(rawBody, {}))
      return { status, body }
    })
  return { ...fixture, receiver, accountNumber, readAt, acknowledge }
}

describe('the bank', () => {
  test.each<[NotificationOutcome, string, string]>([
    ['RECORDED', '00', 'success'],
    ['UNMATCHED', '00', 'success'],
    ['MANUAL_REVIEW', '00', 'success'],
    ['IGNORED', '00', 'success'],
    ['DUPLICATE', '01', 'duplicate transaction'],
  ])(
    'notifies once if the outcome is %s, with response code %s',
    async (outcome, code, message) => {
      const { bank, receiver, accountNumber, acknowledge } = await notifiedFixture()
      acknowledge(outcome)
      const result = await bank.pay(accountNumber, '120.50')
      expect(result.acknowledged).toBe(true)
      expect(receiver.requests).toHaveLength(1)
      expect(JSON.parse(String(result.responses[0]?.text))).toEqual({
        requestSuccessful: true,
        sessionId: bank.transactions[0]?.sessionId,
        responseMessage: message,
        responseCode: code,
      })
      expect(bank.transactions[0]?.notificationStatus).toBe('acknowledged')
    },
  )

  test.each<NotificationOutcome>(['RETRY', 'UNCONFIRMED', 'UNAUTHENTICATED'])(
    'notifies five times if the outcome is %s, and does not reject the payment',
    async (outcome) => {
      const { bank, receiver, accountNumber, acknowledge } = await notifiedFixture()
      acknowledge(outcome)
      expect((await bank.pay(accountNumber, '120.50')).acknowledged).toBe(false)
      expect(receiver.requests).toHaveLength(5)
      expect(bank.transactions[0]?.notificationStatus).toBe('pending')
    },
  )

  test('rejects only denied payments for good, if an operator chose code 02', async () => {
    const { bank, receiver, accountNumber, acknowledge } = await notifiedFixture({
      BANK_PROVIDUS_DENIED_CODE: '02',
    })
    acknowledge('UNCONFIRMED')
    await bank.pay(accountNumber, '120.50')
    expect(receiver.requests).toHaveLength(1)
    expect(bank.transactions[0]?.notificationStatus).toBe('rejected')
    acknowledge('RETRY')
    await bank.pay(accountNumber, '120.50')
    expect(bank.transactions[1]?.notificationStatus).toBe('pending')
  })

  test('echoes nothing to a caller that is not the bank', async () => {
    const { connector } = await providusFixture()
    const response = connector.acknowledge(
      'UNAUTHENTICATED',
      bankNotification('{"sessionId":"echoed"}', {}),
    )
    expect(response.status).toBe(401)
    expect(response.body).not.toContain('echoed')
  })
})

describe('a requery', () => {
  test('confirms a payment by its settlement id', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await notifiedFixture()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '9999999999999.99')
    const payment = readAt(0)
    expect(payment.amountMinor).toBe(999_999_999_999_999n)
    // Only requeries contain the payer's bank.
    const payer = { ...payment.payer, bankCode: '000004' }
    expect(await connector.requery(payment, signal)).toEqual({
      kind: 'confirmed',
      payment: { ...payment, payer },
    })
    expect(bank.requests).toMatchObject({ settlement: 1, session: 0 })
  })

  const received = async (env: Readonly<Record<string, string>> = {}) => {
    const fixture = await notifiedFixture(env)
    const { sessionId, settlementId } = fixture.bank.receive(fixture.accountNumber, '120')
    const { accountNumber } = fixture
    return {
      ...fixture,
      reported: bankPayment({ sessionId, bankKey: settlementId, accountNumber }),
    }
  }

  test.each<ProvidusFault>(['not found', '500', '500 after', 'cut', 'page', '03'])(
    'falls back to the session id if the settlement id fails with %s',
    async (fault) => {
      const { bank, connector, reported } = await received()
      bank.faults.add('settlement', fault)
      expect(await connector.requery(reported, signal)).toMatchObject({
        kind: 'confirmed',
        payment: { bankKey: reported.bankKey, amountMinor: 12_000n },
      })
    },
  )

  test('has an unknown result if an error of the bank says that something was not found', async () => {
    const failing = await startReceiver()
    onTestFinished(() => failing.close())
    const { connector } = await providusFixture({}, { BANK_PROVIDUS_BASE_URL: failing.url })
    const body = JSON.stringify({ tranRemarks: 'Database not found' })
    for (const [status, kind] of [
      [503, 'unknown'],
      [200, 'denied'],
    ] as const) {
      failing.answer({ status, body })
      expect(await connector.requery(bankPayment(), signal)).toMatchObject({ kind })
    }
  })

  test('falls back to the session id if the other path is not served', async () => {
    const { connector, reported } = await received({
      BANK_PROVIDUS_VERIFY_SETTLEMENT_PATH: 'PiPnone',
    })
    expect((await connector.requery(reported, signal)).kind).toBe('confirmed')
  })

  test('denies a payment that is found by neither id', async () => {
    const { bank, connector, reported } = await received()
    const forged = { ...reported, bankKey: '1', sessionId: '2' }
    expect(await connector.requery(forged, signal)).toMatchObject({
      kind: 'denied',
      cause: expect.stringContaining('Transaction not found'),
    })
    expect(bank.requests).toMatchObject({ settlement: 1, session: 1 })
  })

  test('denies a genuine session id with another settlement id, and the reverse', async () => {
    const { connector, reported } = await received()
    const otherSettlement = { ...reported, bankKey: `${reported.bankKey}1` }
    expect((await connector.requery(otherSettlement, signal)).kind).toBe('denied')
    const otherSession = { ...reported, sessionId: `${reported.sessionId}1` }
    expect((await connector.requery(otherSession, signal)).kind).toBe('denied')
  })

  test('returns the payment as the bank has it, not as it was notified', async () => {
    const { connector, reported } = await received()
    const altered = { ...reported, amountMinor: 1_200_000n, accountNumber: '0000000000' }
    expect(await connector.requery(altered, signal)).toMatchObject({
      kind: 'confirmed',
      payment: { amountMinor: 12_000n, accountNumber: reported.accountNumber },
    })
  })

  test('confirms a payment without a session id by its settlement id', async () => {
    const { bank, connector, accountNumber, acknowledge, readAt } = await notifiedFixture()
    acknowledge('RECORDED')
    await bank.pay(accountNumber, '120', { sessionId: '' })
    const payment = readAt(0)
    expect(payment.sessionId).toBe(payment.bankKey)
    expect(await connector.requery(payment, signal)).toMatchObject({ kind: 'confirmed' })
    expect(bank.requests.session).toBe(0)
  })

  test('has an unknown result unless both requests report that nothing is found', async () => {
    const { bank, connector, reported } = await received()
    bank.faults.add('settlement', '500', 2)
    bank.faults.add('session', '500')
    expect((await connector.requery(reported, signal)).kind).toBe('unknown')
    bank.faults.add('session', 'not found')
    expect((await connector.requery(reported, signal)).kind).toBe('unknown')
    expect((await connector.requery(reported, signal)).kind).toBe('confirmed')
  })
})
