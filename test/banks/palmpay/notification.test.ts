import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { notificationBody, startFakePalmPay } from '../../../src/banks/palmpay/fake.ts'
import { startReceiver } from '../../support/receiver.ts'
import { notificationOf, usePalmPay } from './fixture.ts'

const palm = usePalmPay()
const { credentials, connector } = palm

describe('a notification', () => {
  const paid = (amount = '180', payment = {}) => {
    const { virtualAccountNo } = palm.fake.openAccount('Ada Obi')
    return palm.fake.receive(virtualAccountNo, amount, payment)
  }

  test('is read completely, to the kobo', () => {
    const atMs = 1_700_000_000_123
    const received = paid('1500.50', {
      payerName: '  NGOZI  EZE \u0000',
      atMs,
      sessionId: '1'.repeat(30),
    })
    const reading = connector().read(notificationOf(palm.fake.notification(received)))
    expect(reading).toEqual({
      kind: 'payment',
      bound: true,
      payment: {
        bankKey: received.orderNo,
        sessionId: '1'.repeat(30),
        accountNumber: received.accountNumber,
        amountMinor: 150_050n,
        paidAtMs: atMs,
        payer: {
          name: 'NGOZI  EZE',
          accountNumber: '0123456789',
          bankCode: '',
          bankName: 'First Bank of Nigeria',
        },
        narration: received.reference,
      },
    })
  })

  test('is read for any names and amounts', () => {
    const { read } = connector()
    const { virtualAccountNo } = palm.fake.openAccount('Ada Obi')
    const text = fc.string({ unit: 'grapheme', maxLength: 40 })
    const kobo = fc.bigInt({ min: 1n, max: 10n ** 15n })
    fc.assert(
      fc.property(text, text, kobo, (payerName, reference, amountMinor) => {
        const amount = `${amountMinor / 100n}.${String(amountMinor % 100n).padStart(2, '0')}`
        const received = palm.fake.receive(virtualAccountNo, amount, { payerName, reference })
        const reading = read(notificationOf(palm.fake.notification(received)))
        expect(reading).toMatchObject({
          kind: 'payment',
          payment: { amountMinor, bankKey: received.orderNo, sessionId: received.sessionId },
        })
      }),
      { numRuns: 50 },
    )
  })

  test('without a session id uses the order number', () => {
    const received = paid('10', { sessionId: '' })
    expect(connector().read(notificationOf(palm.fake.notification(received)))).toMatchObject({
      payment: { bankKey: received.orderNo, sessionId: received.orderNo },
    })
  })

  test('is unauthenticated if any field is changed, removed or added', () => {
    const { read } = connector()
    const genuine = JSON.parse(palm.fake.notification(paid())) as Record<string, unknown>
    expect(read(notificationOf(JSON.stringify(genuine))).kind).toBe('payment')
    const value = fc.oneof(fc.string({ maxLength: 12 }), fc.integer(), fc.boolean(), fc.object())
    const added = fc.stringMatching(/^[a-zA-Z]{1,12}$/)
    const named = fc.oneof(fc.constantFrom(...Object.keys(genuine)), added)
    fc.assert(
      fc.property(named, value, (name, changed) => {
        const before = Object.hasOwn(genuine, name) ? String(genuine[name]) : ''
        const after = typeof changed === 'object' ? JSON.stringify(changed) : String(changed)
        fc.pre(after.trim() !== before.trim())
        const body = JSON.stringify({ ...genuine, [name]: changed })
        expect(read(notificationOf(body)).kind).toBe('unauthenticated')
      }),
      { numRuns: 150 },
    )
    for (const name of Object.keys(genuine)) {
      const { [name]: _left, ...rest } = genuine
      expect(read(notificationOf(JSON.stringify(rest))).kind).toBe('unauthenticated')
    }
  })

  test('with an ambiguous signed text is not bound', () => {
    const received = paid('10', { payerName: 'TOM & SONS' })
    expect(connector().read(notificationOf(palm.fake.notification(received)))).toMatchObject({
      kind: 'payment',
      bound: false,
    })
  })

  test.each(['', 'success', '[]', 'null', '{}', '{"sign":""}', '{"sign":1}', '{"sign":{}}'])(
    'without a signature is unauthenticated: %s',
    (body) => {
      expect(connector().read(notificationOf(body)).kind).toBe('unauthenticated')
    },
  )

  const signed = (fields: Record<string, string | bigint>) =>
    notificationOf(notificationBody(fields, credentials.bankPrivateKey))
  const genuine = () => {
    const body = JSON.parse(palm.fake.notification(paid())) as Record<string, string | number>
    const { sign: _sign, ...fields } = body
    return Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [
        name,
        typeof value === 'number' ? BigInt(value) : value,
      ]),
    )
  }

  test('for the app of another merchant is unauthenticated, although PalmPay signed it', () => {
    expect(connector().read(signed({ ...genuine(), appId: 'L-OTHER' })).kind).toBe(
      'unauthenticated',
    )
  })

  test.each([
    ['orderStatus', 2n],
    ['orderId', 'payout-1'],
    ['virtualAccountNo', ''],
  ])('with %s %s is ignored', (name, value) => {
    expect(connector().read(signed({ ...genuine(), [name]: value })).kind).toBe('ignored')
  })

  test.each([
    ['orderAmount', '1e3'],
    ['orderAmount', '0'],
    ['orderAmount', '-180'],
    ['orderAmount', '1000000000000001'],
    ['orderNo', 'a b'],
    ['sessionId', 'x'.repeat(65)],
    ['currency', 'GHS'],
    ['orderStatus', ''],
  ])('with %s "%s" is malformed', (name, value) => {
    expect(connector().read(signed({ ...genuine(), [name]: value })).kind).toBe('malformed')
  })
})

describe('acknowledging', () => {
  const acknowledge = (outcome: Parameters<ReturnType<typeof connector>['acknowledge']>[0]) =>
    connector().acknowledge(outcome, notificationOf('{}'))

  test('is success unless the bank has to send it again, or is not the bank', () => {
    for (const outcome of [
      'RECORDED',
      'DUPLICATE',
      'UNMATCHED',
      'MANUAL_REVIEW',
      'IGNORED',
      'UNCONFIRMED',
    ] as const) {
      const success = { status: 200, contentType: 'text/plain', body: 'success' }
      expect(acknowledge(outcome), outcome).toEqual(success)
    }
    expect(acknowledge('UNAUTHENTICATED')).toMatchObject({ status: 401 })
    expect(acknowledge('RETRY').status).toBeGreaterThanOrEqual(500)
    expect(acknowledge('RETRY').body).not.toBe('success')
  })

  test('the bank retries until the response is success', async () => {
    const receiver = await startReceiver()
    const responses = [acknowledge('RETRY'), acknowledge('RETRY'), acknowledge('RECORDED')]
    receiver.answer(() => {
      const { status, contentType, body } = responses.shift() ?? acknowledge('DUPLICATE')
      return { status, headers: { 'content-type': contentType }, body }
    })
    const bank = await startFakePalmPay({
      port: 0,
      credentials,
      notify: receiver.url,
      retryDelaysMs: Array(8).fill(1),
    })
    const { virtualAccountNo } = bank.openAccount('Ada Obi')
    const result = await bank.pay(virtualAccountNo, '10')
    expect(result.acknowledged).toBe(true)
    expect(result.responses.map(({ status }) => status)).toEqual([503, 503, 200])
    const readings = receiver.requests.map(({ rawBody }) =>
      connector().read(notificationOf(rawBody)),
    )
    expect(readings.map(({ kind }) => kind)).toEqual(['payment', 'payment', 'payment'])
    await bank.close()
    await receiver.close()
  })
})
