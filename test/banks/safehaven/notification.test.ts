import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { BankNotification } from '../../../src/banks/bank.ts'
import { startReceiver } from '../../support/receiver.ts'
import { notificationOf, SECRET, signal, useSafeHaven, VIRTUAL } from './fixture.ts'

const haven = useSafeHaven()
const { connector, order } = haven

describe('a notification', () => {
  const received = (amount = '180.25', payment = {}) =>
    haven.fake.receive(haven.fake.openAccount('Ada Obi').accountNumber, amount, payment)
  const { read } = { read: (notification: BankNotification) => connector().read(notification) }
  const changed = (change: Record<string, unknown>, transfer = received()) => {
    const body = JSON.parse(haven.fake.notification(transfer))
    return notificationOf(JSON.stringify({ ...body, data: { ...body.data, ...change } }))
  }

  test.each(['type', 'eventType', 'event'] as const)('is read with its kind in %s', (spelling) => {
    const atMs = 1_700_000_000_000
    const transfer = received('1500.5', {
      atMs,
      senderName: ' AMAKA \u0000BELLO ',
      narration: 'Rent',
    })
    const reading = read(notificationOf(haven.fake.notification(transfer, spelling)))
    expect(reading).toEqual({
      kind: 'payment',
      bound: false,
      payment: {
        bankKey: transfer.sessionId,
        sessionId: transfer.sessionId,
        accountNumber: transfer.accountNumber,
        amountMinor: 150_050n,
        paidAtMs: atMs + 1_000,
        payer: {
          name: expect.stringMatching(/^AMAKA\s+BELLO$/),
          accountNumber: '0987654321',
          bankCode: '000016',
          bankName: '',
        },
        narration: 'Rent',
      },
    })
  })

  test('of an expiring account has no direction', async () => {
    const result = await connector(VIRTUAL).openAccount(order(), signal)
    if (result.kind !== 'opened') throw new Error(result.kind)
    const transfer = haven.fake.receive(result.accountNumber, '10')
    const body = haven.fake.notification(transfer)
    expect(JSON.parse(body)).toMatchObject({ type: 'virtualAccount.transfer' })
    expect(JSON.parse(body).data).not.toHaveProperty('type')
    expect(read(notificationOf(body))).toMatchObject({
      kind: 'payment',
      payment: { amountMinor: 1_000n },
    })
  })

  test('is read for any names and amounts', () => {
    const { accountNumber } = haven.fake.openAccount('Ada Obi')
    const text = fc.string({ unit: 'grapheme', maxLength: 40 })
    const kobo = fc.bigInt({ min: 1n, max: 10n ** 15n })
    const connected = connector()
    fc.assert(
      fc.property(text, text, kobo, (senderName, narration, amountMinor) => {
        const amount = `${amountMinor / 100n}.${String(amountMinor % 100n).padStart(2, '0')}`
        const transfer = haven.fake.receive(accountNumber, amount, { senderName, narration })
        const reading = connected.read(notificationOf(haven.fake.notification(transfer)))
        expect(reading).toMatchObject({
          kind: 'payment',
          payment: { amountMinor, bankKey: transfer.sessionId, accountNumber },
        })
      }),
      { numRuns: 200 },
    )
  })

  test.each(['', SECRET.slice(1), `${SECRET}x`, 'x'.repeat(SECRET.length)])(
    'with another secret in the path is unauthenticated: "%s"',
    (pathSecret) => {
      const reading = read(notificationOf(haven.fake.notification(received()), pathSecret))
      expect(reading.kind).toBe('unauthenticated')
    },
  )

  test('of an outward transfer is ignored', () => {
    expect(read(notificationOf(haven.fake.outward(received()))).kind).toBe('ignored')
  })

  test.each(['Pending', 'Processing', 'Failed'])('with status %s is ignored', (status) => {
    expect(read(notificationOf(haven.fake.notification(received('1', { status })))).kind).toBe(
      'ignored',
    )
  })

  test.each([{ isReversed: true }, { isReversed: 'true' }, { status: 'Reversed' }])(
    'with %j is a reversal',
    (change) => {
      const reading = read(changed(change))
      expect(reading).toMatchObject({ kind: 'reversal', payment: { amountMinor: 18_025n } })
    },
  )

  const raw = (amount: string) => {
    const body = haven.fake.notification(received('77.77'))
    expect(body).toContain('"amount":77.77')
    return notificationOf(body.replace('"amount":77.77', `"amount":${amount}`))
  }

  test.each(['1e3', '-5', '0', '"1,000"', '{}', '10000000000000.01'])(
    'with amount %s is malformed',
    (amount) => {
      expect(read(raw(amount)).kind).toBe('malformed')
    },
  )

  test.each([
    ['0.29', 29n],
    ['4.35', 435n],
    ['"1500.50"', 150_050n],
    ['9999999999999.99', 999_999_999_999_999n],
  ])('with amount %s is exact', (amount, amountMinor) => {
    expect(read(raw(amount))).toMatchObject({ kind: 'payment', payment: { amountMinor } })
  })

  test.each([
    { sessionId: '' },
    { sessionId: 'a b' },
    { creditAccountNumber: '123' },
    { type: 'Sideways' },
    { isReversed: 'perhaps' },
  ])('with %j is malformed', (change) => {
    expect(read(changed(change)).kind).toBe('malformed')
  })

  test.each(['', 'x', '[]', 'null', '{}', '{"type":"transfer"}', '{"type":"transfer","data":[]}'])(
    'without a transfer is malformed: %s',
    (body) => {
      expect(read(notificationOf(body)).kind).toBe('malformed')
    },
  )

  test('of an unknown kind is ignored unless it is an inward transfer', () => {
    const other = JSON.stringify({ type: 'account.update', data: { _id: '1' } })
    expect(read(notificationOf(other)).kind).toBe('ignored')
    const body = JSON.parse(haven.fake.notification(received()))
    expect(read(notificationOf(JSON.stringify({ ...body, type: 'account.credit' }))).kind).toBe(
      'malformed',
    )
  })
})

describe('acknowledging', () => {
  test.each([
    ['RECORDED', 200],
    ['MANUAL_REVIEW', 200],
    ['UNAUTHENTICATED', 401],
    ['UNCONFIRMED', 404],
    ['RETRY', 503],
  ] as const)('%s is HTTP %i with short JSON', (outcome, status) => {
    const response = connector().acknowledge(outcome, notificationOf('{}'))
    expect(response).toMatchObject({ status, contentType: 'application/json' })
    expect(JSON.parse(response.body)).toEqual({ received: status === 200 })
  })

  test('the bank notifies the callback URL of the account', async () => {
    const receiver = await startReceiver()
    const environment = { BANK_SAFEHAVEN_CALLBACK_URL: `${receiver.url}/notifications` }
    const result = await connector(environment).openAccount(order(), signal)
    if (result.kind !== 'opened') throw new Error(result.kind)
    const notified = await haven.fake.pay(result.accountNumber, '10')
    expect(notified.acknowledged).toBe(true)
    const [request] = receiver.requests
    expect(request?.path).toBe(`/notifications/${SECRET}`)
    expect(connector().read(notificationOf(request?.rawBody ?? '')).kind).toBe('payment')
    await receiver.close()
  })
})
