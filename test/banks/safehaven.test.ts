import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AccountOrder, BankNotification } from '../../src/banks/bank.ts'
import {
  type BankHttp,
  BankUnreachableError,
  NotListedError,
} from '../../src/banks/http/bank-http.ts'
import { createSafeHaven } from '../../src/banks/safehaven/safehaven.ts'
import { readSafeHavenSettings } from '../../src/banks/safehaven/settings.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { generateSafeHavenCredentials } from '../../src/fake-banks/safehaven/keys.ts'
import {
  type FakeSafeHaven,
  type FakeSafeHavenOptions,
  startFakeSafeHaven,
} from '../../src/fake-banks/safehaven/safehaven.ts'
import type { SafeHavenTransfer } from '../../src/fake-banks/safehaven/transfer.ts'
import { startReceiver } from '../support/receiver.ts'
import { httpTo, readSettingsOf } from './fixture.ts'

const SECRET = 'a-secret-of-the-path-0123456789'
const VIRTUAL = { BANK_SAFEHAVEN_ACCOUNT_KIND: 'virtual', BANK_SAFEHAVEN_POLL_MS: '10' }
const credentials = generateSafeHavenCredentials()
const signal = new AbortController().signal
const fakes: FakeSafeHaven[] = []
let fake: FakeSafeHaven
let orders = 0

const start = async (options: Partial<FakeSafeHavenOptions> = {}) => {
  const started = await startFakeSafeHaven({ port: 0, credentials, ...options })
  fakes.push(started)
  return started
}

beforeAll(async () => {
  fake = await start()
})
afterAll(async () => {
  await Promise.all(fakes.map((started) => started.close()))
})
beforeEach(() => fake.faults.clear())

function settings(environment: NodeJS.ProcessEnv = {}, bank = fake) {
  const own = {
    BANK_SAFEHAVEN_CALLBACK_URL: 'http://127.0.0.1:9/banks/safehaven/notifications',
    BANK_SAFEHAVEN_CALLBACK_SECRET: SECRET,
  }
  return readSettingsOf(readSafeHavenSettings, 'SAFEHAVEN', {
    ...bank.environment,
    ...own,
    ...environment,
  })
}

interface ConnectorOptions {
  readonly bank?: FakeSafeHaven
  readonly timeoutMs?: number
  readonly clock?: Clock
}

function connector(environment: NodeJS.ProcessEnv = {}, options: ConnectorOptions = {}) {
  const { bank = fake, timeoutMs = 5_000, clock = systemClock } = options
  const warnings: string[] = []
  const { found, faults } = settings(environment, bank)
  expect(faults).toEqual([])
  const client = httpTo(bank.url, timeoutMs)
  const bodies: string[] = []
  const http: BankHttp = {
    send(request) {
      bodies.push(request.body ?? '')
      return client.send(request)
    },
  }
  const warn = (text: string) => void warnings.push(text)
  return { ...createSafeHaven({ settings: found!, http, clock, warn }), warnings, bodies }
}

function order(overrides: Partial<AccountOrder> = {}): AccountOrder {
  orders += 1
  return {
    bank: 'SAFEHAVEN',
    reference: `R-SAFEHAVEN${orders}`,
    accountName: 'Acme/Ada Obi',
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
    idType: undefined,
    idNumber: undefined,
    attempt: 1,
    repeated: false,
    ...overrides,
  }
}

const opened = (reference: string, bank = fake) =>
  [...bank.accounts.values()].filter((account) => account.reference === reference)

const notificationOf = (body: string, pathSecret = SECRET): BankNotification => ({
  headers: {},
  rawBody: Buffer.from(body),
  pathSecret,
})

describe.each([
  ['a permanent account', {}],
  ['an expiring account', VIRTUAL],
])('opening %s', (_kind, environment) => {
  test('returns its number and id, and registers our callback URL', async () => {
    const request = order()
    const result = await connector(environment).openAccount(request, signal)
    const [account, ...others] = opened(request.reference)
    expect(others).toEqual([])
    expect(result).toEqual({
      kind: 'opened',
      accountNumber: account?.accountNumber,
      accountName: account?.name,
      bankAccountId: account?.id,
    })
    expect(account?.callbackUrl).toBe(`http://127.0.0.1:9/banks/safehaven/notifications/${SECRET}`)
  })

  test.each([
    'hang',
    'hang after',
    'cut',
    'cut after',
    '500',
    '500 after',
    'page',
    'page after',
    'statusCode 500',
  ] as const)('needs manual review after "%s"', async (fault) => {
    const request = order()
    const bank = connector(environment, { timeoutMs: 300 })
    fake.faults.add('create', fault)
    const result = await bank.openAccount(request, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
    expect(bank.findOpened).toBeUndefined()
    expect(opened(request.reference)).toHaveLength(fault.endsWith('after') ? 1 : 0)
  })

  test.each(['statusCode 400', 'statusCode 429', 'statusCode 402'] as const)(
    'opens nothing after "%s" inside HTTP 200',
    async (fault) => {
      fake.faults.add('create', fault)
      const result = await connector(environment).openAccount(order(), signal)
      expect(result).toMatchObject({ kind: 'unavailable' })
    },
  )

  test('opens nothing if the bank is unreachable', async () => {
    const gone = await start()
    await gone.close()
    const result = await connector(environment, { bank: gone }).openAccount(order(), signal)
    expect(result).toMatchObject({ kind: 'unavailable' })
  })

  test.each(['hang', 'cut', '500', 'page', 'statusCode 400'] as const)(
    'opens nothing without a token ("%s")',
    async (fault) => {
      fake.faults.add('token', fault)
      const request = order()
      const timing = { BANK_SAFEHAVEN_TIMEOUT_MS: '300' }
      const bank = connector({ ...environment, ...timing }, { timeoutMs: 300 })
      expect(await bank.openAccount(request, signal)).toMatchObject({ kind: 'unavailable' })
      expect(opened(request.reference)).toEqual([])
      // Failures are not cached.
      expect(await bank.openAccount(request, signal)).toMatchObject({ kind: 'opened' })
    },
  )
})

describe('a permanent account', () => {
  test.each([
    ['0123', 'phone'],
    ['+12', 'phone'],
  ])('rejects phone %s', async (phone, field) => {
    const result = await connector().openAccount(order({ phone }), signal)
    expect(result).toEqual({
      kind: 'rejected',
      fields: [{ field, message: 'was not accepted by the bank' }],
    })
  })

  test('recognises rejections inside HTTP 200', async () => {
    const bank = await start({ rejectsInside200: true })
    const result = await connector({}, { bank }).openAccount(order({ email: 'invalid' }), signal)
    expect(result).toMatchObject({ kind: 'rejected', fields: [{ field: 'email' }] })
  })

  test('does not blame the customer for an error in the settings', async () => {
    const environment = { BANK_SAFEHAVEN_IDENTITY_ID: '' }
    const result = await connector(environment).openAccount(order(), signal)
    expect(result).toEqual({ kind: 'unavailable', cause: '400 identity is required.' })
  })

  test.each([
    ['08012345678', '+2348012345678'],
    ['2348012345678', '+2348012345678'],
    ['+447700900123', '+447700900123'],
  ])('phone %s is sent as %s', async (phone, sent) => {
    const bank = connector()
    const result = await bank.openAccount(order({ phone }), signal)
    expect(result.kind).toBe('opened')
    expect(JSON.parse(bank.bodies.at(-1) ?? '')).toMatchObject({
      phoneNumber: sent,
      emailAddress: 'ada@example.com',
      identityType: 'vID',
    })
  })

  test('sends the operator’s fields', async () => {
    const own = { autoSweep: true, autoSweepDetails: { schedule: 'Instant' } }
    const bank = connector({ BANK_SAFEHAVEN_CREATE_FIELDS: JSON.stringify(own) })
    await bank.openAccount(order(), signal)
    expect(JSON.parse(bank.bodies.at(-1) ?? '')).toMatchObject(own)
  })

  test('needs manual review if the bank already knows the reference of a retry', async () => {
    const request = order({ attempt: 2, repeated: true })
    fake.faults.add('create', 'statusCode 409')
    expect(await connector().openAccount(request, signal)).toMatchObject({
      kind: 'unknown',
      next: 'manual review',
    })
  })

  test('cannot be closed at the bank, and has a statement', () => {
    expect(connector().closeAccount).toBeUndefined()
    expect(connector().listing).toBe('by account')
  })
})

describe('an expiring account', () => {
  test('is polled until it has a number', async () => {
    const bank = await start({ pollsWithoutNumber: 4 })
    bank.faults.add('get', '500', 2)
    const request = order()
    const result = await connector(VIRTUAL, { bank }).openAccount(request, signal)
    const [account] = opened(request.reference, bank)
    expect(result).toMatchObject({ kind: 'opened', accountNumber: account?.accountNumber })
    expect(bank.requests).toMatchObject({ create: 1, get: 6 })
  })

  test('needs manual review if it gets no number in time', async () => {
    const bank = await start({ pollsWithoutNumber: 100 })
    const polls = { ...VIRTUAL, BANK_SAFEHAVEN_POLLS: '3' }
    const result = await connector(polls, { bank }).openAccount(order(), signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
    expect(bank.requests.get).toBe(3)
    const abort = AbortSignal.timeout(50)
    const slow = { ...VIRTUAL, BANK_SAFEHAVEN_POLL_MS: '10000' }
    const given = await connector(slow, { bank }).openAccount(order(), abort)
    expect(given).toMatchObject({ kind: 'unknown', next: 'manual review' })
  })

  test('is closed by deleting it, which can be repeated', async () => {
    const bank = connector(VIRTUAL, { timeoutMs: 300 })
    const result = await bank.openAccount(order(), signal)
    if (result.kind !== 'opened') throw new Error(result.kind)
    const account = { reference: '', ...result }
    fake.faults.add('delete', '500')
    expect(await bank.closeAccount?.(account, signal)).toMatchObject({ kind: 'unavailable' })
    fake.faults.add('delete', 'hang after')
    expect(await bank.closeAccount?.(account, signal)).toMatchObject({ kind: 'unavailable' })
    expect(fake.accounts.get(result.accountNumber)?.status).toBe('Closed')
    expect(await bank.closeAccount?.(account, signal)).toEqual({ kind: 'closed' })
  })

  test('has no statement', () => {
    expect(connector(VIRTUAL)).not.toHaveProperty('listPayments')
  })
})

describe('tokens', () => {
  test('are fetched once for concurrent calls, and renewed once after a rejection', async () => {
    const bank = await start()
    const { openAccount } = connector({}, { bank })
    const openMany = () =>
      Promise.all(Array.from({ length: 20 }, () => openAccount(order(), signal)))
    expect(new Set((await openMany()).map(({ kind }) => kind))).toEqual(new Set(['opened']))
    expect(bank.requests.token).toBe(1)
    bank.expireTokens()
    expect(new Set((await openMany()).map(({ kind }) => kind))).toEqual(new Set(['opened']))
    expect(bank.requests.token).toBe(2)
  })

  test('are renewed before they expire', async () => {
    const times = { now: Date.now() }
    const clock = { now: () => times.now }
    const bank = await start({ tokenSeconds: 600, clock })
    const { openAccount } = connector({}, { bank, clock })
    await openAccount(order(), signal)
    times.now += 500_000
    await openAccount(order(), signal)
    expect(bank.requests.token).toBe(1)
    times.now += 50_000
    await openAccount(order(), signal)
    expect(bank.requests).toEqual(expect.objectContaining({ token: 2, create: 3 }))
  })

  test('are requested as JSON if configured', async () => {
    const environment = { BANK_SAFEHAVEN_TOKEN_FORM: 'json' }
    expect((await connector(environment).openAccount(order(), signal)).kind).toBe('opened')
  })

  test('come with the client id for calls; a rejected token is renewed once', async () => {
    const environment = { BANK_SAFEHAVEN_CLIENT_ID: 'another' }
    const result = await connector(environment).openAccount(order(), signal)
    expect(result).toEqual({
      kind: 'unavailable',
      cause: 'no token: HTTP 401 without a usable token',
    })
    const bank = await start()
    bank.faults.add('create', 'statusCode 403', 2)
    const rejected = await connector({}, { bank }).openAccount(order(), signal)
    expect(rejected).toMatchObject({ kind: 'unavailable', cause: '403 Fault' })
    expect(bank.requests).toMatchObject({ token: 2, create: 2 })
  })

  test('are not issued for another key, audience or issuer', async () => {
    const other = await start({ credentials: generateSafeHavenCredentials() })
    const { BANK_SAFEHAVEN_PRIVATE_KEY } = other.environment
    for (const wrong of [
      { BANK_SAFEHAVEN_PRIVATE_KEY },
      { BANK_SAFEHAVEN_AUDIENCE: 'https://other.example' },
      { BANK_SAFEHAVEN_COMPANY_URL: 'https://other.example' },
    ]) {
      const result = await connector(wrong).openAccount(order(), signal)
      expect(result).toMatchObject({ kind: 'unavailable' })
    }
  })
})

describe('a notification', () => {
  const received = (amount = '180.25', payment = {}) =>
    fake.receive(fake.openAccount('Ada Obi').accountNumber, amount, payment)
  const { read } = { read: (notification: BankNotification) => connector().read(notification) }
  const changed = (change: Record<string, unknown>, transfer = received()) => {
    const body = JSON.parse(fake.notification(transfer))
    return notificationOf(JSON.stringify({ ...body, data: { ...body.data, ...change } }))
  }

  test.each(['type', 'eventType', 'event'] as const)('is read with its kind in %s', (spelling) => {
    const atMs = 1_700_000_000_000
    const transfer = received('1500.5', {
      atMs,
      senderName: ' AMAKA \u0000BELLO ',
      narration: 'Rent',
    })
    const reading = read(notificationOf(fake.notification(transfer, spelling)))
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
    const transfer = fake.receive(result.accountNumber, '10')
    const body = fake.notification(transfer)
    expect(JSON.parse(body)).toMatchObject({ type: 'virtualAccount.transfer' })
    expect(JSON.parse(body).data).not.toHaveProperty('type')
    expect(read(notificationOf(body))).toMatchObject({
      kind: 'payment',
      payment: { amountMinor: 1_000n },
    })
  })

  test('is read for any names and amounts', () => {
    const { accountNumber } = fake.openAccount('Ada Obi')
    const text = fc.string({ unit: 'grapheme', maxLength: 40 })
    const kobo = fc.bigInt({ min: 1n, max: 10n ** 15n })
    const connected = connector()
    fc.assert(
      fc.property(text, text, kobo, (senderName, narration, amountMinor) => {
        const amount = `${amountMinor / 100n}.${String(amountMinor % 100n).padStart(2, '0')}`
        const transfer = fake.receive(accountNumber, amount, { senderName, narration })
        const reading = connected.read(notificationOf(fake.notification(transfer)))
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
      const reading = read(notificationOf(fake.notification(received()), pathSecret))
      expect(reading.kind).toBe('unauthenticated')
    },
  )

  test('of an outward transfer is ignored', () => {
    expect(read(notificationOf(fake.outward(received()))).kind).toBe('ignored')
  })

  test.each(['Pending', 'Processing', 'Failed'])('with status %s is ignored', (status) => {
    expect(read(notificationOf(fake.notification(received('1', { status })))).kind).toBe('ignored')
  })

  test.each([{ isReversed: true }, { isReversed: 'true' }, { status: 'Reversed' }])(
    'with %j is a reversal',
    (change) => {
      const reading = read(changed(change))
      expect(reading).toMatchObject({ kind: 'reversal', payment: { amountMinor: 18_025n } })
    },
  )

  const raw = (amount: string) => {
    const body = fake.notification(received('77.77'))
    expect(body).toContain('"amount":77.77')
    return notificationOf(body.replace('"amount":77.77', `"amount":${amount}`))
  }

  test.each([
    '1e3',
    '1.005',
    '0.1e1',
    '-5',
    '0',
    '0.00',
    '"1,000"',
    'null',
    '{}',
    '10000000000000.01',
  ])('with amount %s is malformed', (amount) => {
    expect(read(raw(amount)).kind).toBe('malformed')
  })

  test.each([
    ['0.3', 30n],
    ['0.29', 29n],
    ['1.1', 110n],
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
    { status: null },
    { type: '' },
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
    const body = JSON.parse(fake.notification(received()))
    expect(read(notificationOf(JSON.stringify({ ...body, type: 'account.credit' }))).kind).toBe(
      'malformed',
    )
  })
})

describe('a requery', () => {
  const paymentOf = (transfer: SafeHavenTransfer) => {
    const reading = connector().read(notificationOf(fake.notification(transfer)))
    if (reading.kind !== 'payment') throw new Error(reading.kind)
    return reading.payment
  }
  const received = () => fake.receive(fake.openAccount('Ada Obi').accountNumber, '180.25')

  test('confirms a payment of either kind of account', async () => {
    const payment = paymentOf(received())
    expect(await connector().requery(payment, signal)).toEqual({ kind: 'confirmed', payment })
    const result = await connector(VIRTUAL).openAccount(order(), signal)
    if (result.kind !== 'opened') throw new Error(result.kind)
    const virtual = paymentOf(fake.receive(result.accountNumber, '12'))
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

  test.each(['hang', 'cut', '500', 'page', 'statusCode 500', 'statusCode 429'] as const)(
    'has an unknown result after "%s"',
    async (fault) => {
      const payment = paymentOf(received())
      fake.faults.add('status', fault)
      const result = await connector({}, { timeoutMs: 300 }).requery(payment, signal)
      expect(result.kind).toBe('unknown')
    },
  )
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
    const [account, other] = [fake.openAccount('Ada Obi'), fake.openAccount('Bola Ade')]
    for (let i = 0; i < 260; i++) {
      fake.receive(account.accountNumber, `${i + 1}.01`, { atMs: startMs + i })
    }
    fake.receive(other.accountNumber, '5', { atMs: startMs })
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
    const account = fake.openAccount('Ada Obi')
    fake.receive(account.accountNumber, '1', { atMs: startMs }).isReversed = true
    fake.receive(account.accountNumber, '2', { atMs: startMs, sessionId: 'no session' })
    fake.receive(account.accountNumber, '3', { atMs: startMs })
    const bank = connector()
    const listed = await list(bank, account)
    expect(listed).toMatchObject({ payments: [{ amountMinor: 300n }], next: undefined })
    expect(bank.warnings).toEqual([expect.stringContaining('sessionId is "no session"')])
  })

  test.each(['hang', '500', 'page', 'statusCode 429', 'statusCode 400'] as const)(
    'throws after "%s"',
    async (fault) => {
      fake.faults.add('statement', fault)
      const listed = list(connector({}, { timeoutMs: 300 }), fake.openAccount('Ada Obi'))
      // Only the bank's own rejection concerns the account.
      const kind = fault === 'statusCode 400' ? NotListedError : BankUnreachableError
      await expect(listed).rejects.toBeInstanceOf(kind)
    },
  )
})

describe('acknowledging', () => {
  const acknowledge = (outcome: Parameters<ReturnType<typeof connector>['acknowledge']>[0]) =>
    connector().acknowledge(outcome, notificationOf('{}'))

  test.each(['RECORDED', 'DUPLICATE', 'UNMATCHED', 'MANUAL_REVIEW', 'IGNORED'] as const)(
    '%s is HTTP 200 with short JSON',
    (outcome) => {
      const { status, contentType, body } = acknowledge(outcome)
      expect([status, contentType, JSON.parse(body)]).toEqual([
        200,
        'application/json',
        { received: true },
      ])
    },
  )

  test.each([
    ['UNAUTHENTICATED', 401],
    ['UNCONFIRMED', 404],
    ['RETRY', 503],
  ] as const)('%s is HTTP %i', (outcome, status) => {
    expect(acknowledge(outcome).status).toBe(status)
  })

  test('the bank notifies the callback URL of the account', async () => {
    const receiver = await startReceiver()
    const environment = { BANK_SAFEHAVEN_CALLBACK_URL: `${receiver.url}/notifications` }
    const result = await connector(environment).openAccount(order(), signal)
    if (result.kind !== 'opened') throw new Error(result.kind)
    const notified = await fake.pay(result.accountNumber, '10')
    expect(notified.acknowledged).toBe(true)
    const [request] = receiver.requests
    expect(request?.path).toBe(`/notifications/${SECRET}`)
    expect(connector().read(notificationOf(request?.rawBody ?? '')).kind).toBe('payment')
    await receiver.close()
  })
})

describe('settings', () => {
  test('default to production', () => {
    const { found, faults } = settings({ BANK_SAFEHAVEN_BASE_URL: '' })
    expect(faults).toEqual([])
    expect(found).toMatchObject({
      baseUrl: 'https://api.safehavenmfb.com',
      audience: 'https://api.safehavenmfb.com',
      tokenForm: 'form',
      account: { kind: 'sub-account', identityType: 'vID' },
    })
  })

  test('report every error without secrets', () => {
    const { faults } = settings({
      BANK_SAFEHAVEN_ACCOUNT_KIND: 'virtual',
      BANK_SAFEHAVEN_CLIENT_ID: '',
      BANK_SAFEHAVEN_PRIVATE_KEY: 'c2VjcmV0IGtleQ',
      BANK_SAFEHAVEN_CALLBACK_URL: 'https://user:password@example.com',
      BANK_SAFEHAVEN_CALLBACK_SECRET: 'too/short',
      BANK_SAFEHAVEN_SETTLEMENT_ACCOUNT: '1',
      BANK_SAFEHAVEN_POLLS: '0',
    })
    expect(faults.map((fault) => fault.split(' ', 1)[0]).sort()).toEqual([
      'BANK_SAFEHAVEN_CALLBACK_SECRET',
      'BANK_SAFEHAVEN_CALLBACK_URL',
      'BANK_SAFEHAVEN_CLIENT_ID',
      'BANK_SAFEHAVEN_POLLS',
      'BANK_SAFEHAVEN_PRIVATE_KEY',
      'BANK_SAFEHAVEN_SETTLEMENT_ACCOUNT',
    ])
    expect(faults.join()).not.toMatch(/c2VjcmV0IGtleQ|too\/short|password@/)
  })
})
