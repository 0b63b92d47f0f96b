import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AccountOrder, BankNotification } from '../../src/banks/bank.ts'
import { BankUnreachableError } from '../../src/banks/http/bank-http.ts'
import { createPalmPay } from '../../src/banks/palmpay/palmpay.ts'
import { readPalmPaySettings } from '../../src/banks/palmpay/settings.ts'
import { systemClock } from '../../src/core/clock.ts'
import { generatePalmPayCredentials } from '../../src/fake-banks/palmpay/keys.ts'
import { notificationBody } from '../../src/fake-banks/palmpay/order.ts'
import { type FakePalmPay, startFakePalmPay } from '../../src/fake-banks/palmpay/palmpay.ts'
import { startReceiver } from '../support/receiver.ts'
import { httpTo, readSettingsOf } from './fixture.ts'

const credentials = generatePalmPayCredentials()
const signal = new AbortController().signal
let fake: FakePalmPay
let orders = 0

beforeAll(async () => {
  fake = await startFakePalmPay({ port: 0, credentials })
})
afterAll(() => fake.close())
beforeEach(() => fake.faults.clear())

function settings(environment: NodeJS.ProcessEnv = {}) {
  return readSettingsOf(readPalmPaySettings, 'PALMPAY', { ...fake.environment, ...environment })
}

function connector(environment: NodeJS.ProcessEnv = {}, url = fake.url, timeoutMs = 5_000) {
  const warnings: string[] = []
  const { found, faults } = settings(environment)
  expect(faults).toEqual([])
  const bank = createPalmPay({
    settings: found!,
    http: httpTo(url, timeoutMs),
    clock: systemClock,
    random: randomBytes,
    warn: (text) => warnings.push(text),
  })
  return { ...bank, warnings }
}

function order(overrides: Partial<AccountOrder> = {}): AccountOrder {
  orders += 1
  return {
    bank: 'PALMPAY',
    reference: `R-PALMPAY${orders}`,
    accountName: 'Acme/Ada Obi',
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
    idType: 'bvn',
    idNumber: '22212345678',
    attempt: 1,
    repeated: false,
    ...overrides,
  }
}

const opened = (reference: string) =>
  [...fake.accounts.values()].filter(({ accountReference }) => accountReference === reference)

const notificationOf = (body: string): BankNotification => ({
  headers: {},
  rawBody: Buffer.from(body),
  pathSecret: '',
})

describe('opening an account', () => {
  test('uses our reference and name', async () => {
    const request = order({ idType: 'nin' })
    const result = await connector().openAccount(request, signal)
    const [account] = opened(request.reference)
    expect(result).toEqual({
      kind: 'opened',
      accountNumber: account?.virtualAccountNo,
      accountName: 'Acme/Ada Obi',
      bankAccountId: '',
    })
  })

  test('sends the operator’s fields, signed', async () => {
    const environment = {
      BANK_PALMPAY_CREATE_FIELDS: '{"virtualAccountName":"Shop","more":{"a":1}}',
    }
    const result = await connector(environment).openAccount(order(), signal)
    expect(result).toMatchObject({ kind: 'opened', accountName: 'Shop' })
  })

  test.each([
    ['00012345678', 'was not verified by the bank'],
    ['11112345678', 'is already used for an account at the bank'],
  ])('rejects identity %s', async (idNumber, message) => {
    const result = await connector().openAccount(order({ idNumber }), signal)
    expect(result).toEqual({ kind: 'rejected', fields: [{ field: 'idNumber', message }] })
  })

  test.each(['OPEN_GW_000008', 'OPEN_GW_000012', 'OPEN_GW_000020'])(
    'opens nothing after %s and can be retried',
    async (code) => {
      fake.faults.add('create', `code ${code}`)
      const result = await connector().openAccount(order(), signal)
      expect(result).toMatchObject({ kind: 'unavailable', cause: `${code} fault` })
    },
  )

  test('opens nothing with a signature of another key', async () => {
    const other = await startFakePalmPay({ port: 0 })
    const environment = { BANK_PALMPAY_PRIVATE_KEY: other.environment['BANK_PALMPAY_PRIVATE_KEY'] }
    await other.close()
    const request = order()
    const result = await connector(environment).openAccount(request, signal)
    expect(result).toMatchObject({ kind: 'unavailable' })
    expect(opened(request.reference)).toEqual([])
  })

  test('opens nothing if the bank is unreachable', async () => {
    const gone = await startFakePalmPay({ port: 0 })
    await gone.close()
    const result = await connector({}, gone.url).openAccount(order(), signal)
    expect(result).toMatchObject({ kind: 'unavailable' })
  })

  test.each(['hang', 'cut', '500', 'page', 'code AC100003'] as const)(
    'after "%s" finds no account, and a retry opens one',
    async (fault) => {
      const request = order()
      const bank = connector({}, fake.url, 300)
      fake.faults.add('create', fault)
      expect(await bank.openAccount(request, signal)).toMatchObject({
        kind: 'unknown',
        next: 'requery',
      })
      expect(await bank.findOpened?.(request, signal)).toMatchObject({ kind: 'unavailable' })
      const repeated = await bank.openAccount({ ...request, attempt: 2, repeated: true }, signal)
      expect(repeated.kind).toBe('opened')
      expect(opened(request.reference)).toHaveLength(1)
    },
  )

  test.each(['hang after', 'cut after', '500 after', 'page after', 'done, code AC100003'] as const)(
    'after "%s" finds the account',
    async (fault) => {
      const request = order()
      const bank = connector({}, fake.url, 300)
      fake.faults.add('create', fault)
      expect(await bank.openAccount(request, signal)).toMatchObject({
        kind: 'unknown',
        next: 'requery',
      })
      const [account, ...others] = opened(request.reference)
      expect(others).toEqual([])
      expect(await bank.findOpened?.(request, signal)).toMatchObject({
        kind: 'opened',
        accountNumber: account?.virtualAccountNo,
      })
    },
  )

  test('stays unknown if the lookup fails too', async () => {
    const bank = connector({}, fake.url, 300)
    for (const fault of ['hang', '500', 'code AC100003'] as const) {
      fake.faults.add('queryOne', fault)
      const found = await bank.findOpened?.(order(), signal)
      expect(found).toMatchObject({ kind: 'unknown', next: 'requery' })
    }
  })

  test('needs manual review if accounts cannot be looked up by reference', async () => {
    const bank = connector({ BANK_PALMPAY_FIND_BY: 'none' })
    expect(bank.findOpened).toBeUndefined()
    fake.faults.add('create', '500')
    const result = await bank.openAccount(order(), signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
  })

  test('needs manual review if the bank returns another reference', async () => {
    const request = order()
    // Queried by a field that it does not know, the bank may return any account.
    const other = fake.openAccount('Other Customer', 'R-OTHER')
    const environment = {
      BANK_PALMPAY_CREATE_FIELDS: JSON.stringify({ accountReference: other.accountReference }),
    }
    const result = await connector(environment).openAccount(request, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
  })

  test('finds the account if our own first attempt used the identity', async () => {
    const request = order()
    const bank = connector()
    const account = fake.openAccount('Acme/Ada Obi', request.reference)
    fake.faults.add('create', 'code AC100009')
    expect(
      await bank.openAccount({ ...request, attempt: 2, repeated: true }, signal),
    ).toMatchObject({
      kind: 'opened',
      accountNumber: account.virtualAccountNo,
    })
    const other = order({ attempt: 2, repeated: true })
    fake.faults.add('create', 'code AC100009')
    expect(await bank.openAccount(other, signal)).toMatchObject({ kind: 'rejected' })
    fake.faults.add('create', 'code AC100009')
    fake.faults.add('queryOne', '500')
    expect(await bank.openAccount(other, signal)).toMatchObject({
      kind: 'unknown',
      next: 'requery',
    })
  })
})

describe('a notification', () => {
  const paid = (amount = '180', payment = {}) => {
    const { virtualAccountNo } = fake.openAccount('Ada Obi')
    return fake.receive(virtualAccountNo, amount, payment)
  }

  test('is read completely, to the kobo', () => {
    const atMs = 1_700_000_000_123
    const received = paid('1500.50', {
      payerName: '  NGOZI  EZE \u0000',
      atMs,
      sessionId: '1'.repeat(30),
    })
    const reading = connector().read(notificationOf(fake.notification(received)))
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
    const { virtualAccountNo } = fake.openAccount('Ada Obi')
    const text = fc.string({ unit: 'grapheme', maxLength: 40 })
    const kobo = fc.bigInt({ min: 1n, max: 10n ** 15n })
    fc.assert(
      fc.property(text, text, kobo, (payerName, reference, amountMinor) => {
        const amount = `${amountMinor / 100n}.${String(amountMinor % 100n).padStart(2, '0')}`
        const received = fake.receive(virtualAccountNo, amount, { payerName, reference })
        const reading = read(notificationOf(fake.notification(received)))
        expect(reading).toMatchObject({
          kind: 'payment',
          payment: { amountMinor, bankKey: received.orderNo, sessionId: received.sessionId },
        })
      }),
      { numRuns: 200 },
    )
  })

  test('without a session id uses the order number', () => {
    const received = paid('10', { sessionId: '' })
    expect(connector().read(notificationOf(fake.notification(received)))).toMatchObject({
      payment: { bankKey: received.orderNo, sessionId: received.orderNo },
    })
  })

  test('is unauthenticated if any field is changed, removed or added', () => {
    const { read } = connector()
    const genuine = JSON.parse(fake.notification(paid())) as Record<string, unknown>
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
      { numRuns: 500 },
    )
    for (const name of Object.keys(genuine)) {
      const { [name]: _left, ...rest } = genuine
      expect(read(notificationOf(JSON.stringify(rest))).kind).toBe('unauthenticated')
    }
  })

  test('with an ambiguous signed text is not bound', () => {
    const received = paid('10', { payerName: 'TOM & SONS' })
    expect(connector().read(notificationOf(fake.notification(received)))).toMatchObject({
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
    const body = JSON.parse(fake.notification(paid())) as Record<string, string | number>
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
    ['orderStatus', 0n],
    ['orderId', 'payout-1'],
    ['virtualAccountNo', ''],
  ])('with %s %s is ignored', (name, value) => {
    expect(connector().read(signed({ ...genuine(), [name]: value })).kind).toBe('ignored')
  })

  test('of a payout is ignored', () => {
    expect(connector().read(notificationOf(fake.payout(5_000n))).kind).toBe('ignored')
  })

  test.each([
    ['orderAmount', '1e3'],
    ['orderAmount', '180.00'],
    ['orderAmount', '0'],
    ['orderAmount', '-180'],
    ['orderAmount', '1000000000000001'],
    ['orderAmount', ''],
    ['orderNo', 'a b'],
    ['orderNo', ''],
    ['sessionId', 'x'.repeat(65)],
    ['virtualAccountNo', '12345'],
    ['currency', 'GHS'],
    ['orderStatus', ''],
  ])('with %s "%s" is malformed', (name, value) => {
    expect(connector().read(signed({ ...genuine(), [name]: value })).kind).toBe('malformed')
  })

  test('has an exact amount of fifteen digits', () => {
    const reading = connector().read(signed({ ...genuine(), orderAmount: 999_999_999_999_999n }))
    expect(reading).toMatchObject({ payment: { amountMinor: 999_999_999_999_999n } })
  })
})

describe('acknowledging', () => {
  const acknowledge = (outcome: Parameters<ReturnType<typeof connector>['acknowledge']>[0]) =>
    connector().acknowledge(outcome, notificationOf('{}'))

  test.each([
    'RECORDED',
    'DUPLICATE',
    'UNMATCHED',
    'MANUAL_REVIEW',
    'IGNORED',
    'UNCONFIRMED',
  ] as const)('%s responds with success', (outcome) => {
    expect(acknowledge(outcome)).toEqual({
      status: 200,
      contentType: 'text/plain',
      body: 'success',
    })
  })

  test('rejects forgeries, and makes the bank retry after our own faults', () => {
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

describe('a requery', () => {
  const received = (payment = {}) => {
    const { virtualAccountNo } = fake.openAccount('Ada Obi')
    const paid = fake.receive(virtualAccountNo, '180.25', payment)
    const reading = connector().read(notificationOf(fake.notification(paid)))
    if (reading.kind !== 'payment') throw new Error(reading.kind)
    return reading.payment
  }

  test('confirms a payment that the bank has', async () => {
    const payment = received()
    expect(await connector().requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
  })

  test.each(['hang', 'cut', '500', 'page', 'code AC100001', 'code AC100003'] as const)(
    'has an unknown result after "%s"',
    async (fault) => {
      fake.faults.add('detail', fault)
      const result = await connector({}, fake.url, 300).requery(received(), signal)
      expect(result.kind).toBe('unknown')
    },
  )

  test('has an unknown result for an unknown or unpaid order', async () => {
    const payment = received()
    const unknown = { ...payment, bankKey: 'MI0' }
    expect((await connector().requery(unknown, signal)).kind).toBe('unknown')
    const { virtualAccountNo } = fake.openAccount('Ada Obi')
    const pending = fake.receive(virtualAccountNo, '1', { orderStatus: 0n })
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

  test.each(['hang', '500', 'page', 'code OPEN_GW_000012'] as const)(
    'throws BankUnreachableError after "%s"',
    async (fault) => {
      fake.faults.add('pageList', fault)
      const period = { fromMs: 0, toMs: 1, page: undefined, account: undefined }
      const listed = connector({}, fake.url, 300).listPayments?.(period, signal)
      await expect(listed).rejects.toBeInstanceOf(BankUnreachableError)
    },
  )
})

describe('closing an account', () => {
  const close = (accountNumber: string) =>
    connector({}, fake.url, 300).closeAccount?.(
      { reference: '', accountNumber, bankAccountId: '' },
      signal,
    )

  test('disables the account and can be repeated', async () => {
    const account = fake.openAccount('Ada Obi')
    fake.faults.add('update', 'hang after')
    expect(await close(account.virtualAccountNo)).toMatchObject({ kind: 'unavailable' })
    expect(await close(account.virtualAccountNo)).toEqual({ kind: 'closed' })
    expect(account.status).toBe('Disabled')
  })

  test('reports the bank’s error for an unknown account', async () => {
    expect(await close('0000000000')).toEqual({
      kind: 'unavailable',
      cause: 'AC100001 record not found',
    })
  })
})

describe('settings', () => {
  test('default to production', () => {
    const { found, faults } = settings({ BANK_PALMPAY_BASE_URL: '' })
    expect(faults).toEqual([])
    expect(found).toMatchObject({
      baseUrl: 'https://open-gw-prod.palmpay-inc.com',
      findBy: 'accountReference',
      version: 'V2.0',
      countryCode: 'NG',
    })
  })

  test('report every error without keys', () => {
    const { faults } = settings({
      BANK_PALMPAY_APP_ID: '',
      BANK_PALMPAY_PRIVATE_KEY: 'c2VjcmV0IGtleQ',
      BANK_PALMPAY_PUBLIC_KEY: fake.environment['BANK_PALMPAY_PRIVATE_KEY'],
      BANK_PALMPAY_CREATE_FIELDS: '[]',
      BANK_PALMPAY_CREATE_PATH: '/with space',
    })
    expect(faults.map((fault) => fault.split(' ', 1)[0]).sort()).toEqual([
      'BANK_PALMPAY_APP_ID',
      'BANK_PALMPAY_CREATE_FIELDS',
      'BANK_PALMPAY_CREATE_PATH',
      'BANK_PALMPAY_PRIVATE_KEY',
      'BANK_PALMPAY_PUBLIC_KEY',
    ])
    expect(faults.join()).not.toContain('c2VjcmV0IGtleQ')
  })

  test('show no keys when printed', () => {
    expect(JSON.stringify(settings().found)).not.toMatch(/[A-Za-z0-9+/]{60}/)
  })
})
