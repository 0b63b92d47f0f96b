import { describe, expect, test } from 'vitest'
import { waitUntil } from '../../support/wait-for.ts'
import { SECRET, signal, useSafeHaven, VIRTUAL } from './fixture.ts'

const haven = useSafeHaven()
const { start, connector, order, opened } = haven

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
    const bank = connector(environment, { timeoutMs: 1_000 })
    haven.fake.faults.add('create', fault)
    const result = await bank.openAccount(request, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
    expect(bank.findOpened).toBeUndefined()
    // The call ends by its limit of time, before the bank perhaps.
    await expect.poll(() => opened(request.reference)).toHaveLength(fault.endsWith('after') ? 1 : 0)
  })

  test.each(['statusCode 400', 'statusCode 429', 'statusCode 402'] as const)(
    'opens nothing after "%s" inside HTTP 200',
    async (fault) => {
      haven.fake.faults.add('create', fault)
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
      haven.fake.faults.add('token', fault)
      const request = order()
      const timing = { BANK_SAFEHAVEN_TIMEOUT_MS: '1000' }
      const bank = connector({ ...environment, ...timing }, { timeoutMs: 1_000 })
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
    const environment = {
      BANK_SAFEHAVEN_CREATE_FIELDS: JSON.stringify({ identityType: '' }),
    }
    const result = await connector(environment).openAccount(order(), signal)
    expect(result).toEqual({
      kind: 'unavailable',
      refusal: 'request',
      cause: '400 identity is required.',
    })
  })

  test('is opened with the customer’s identity, whose one-time code is valid once', async () => {
    const customer = { idType: 'bvn', idNumber: '22222222222' } as const
    const verification = { identityId: 'customer-1', otp: '123456' }
    const bank = connector()
    const result = await bank.openAccount(order({ ...customer, verification }), signal)
    expect(result.kind).toBe('opened')
    expect(JSON.parse(bank.bodies.at(-1) ?? '')).toMatchObject({
      ...{ identityType: 'BVN', identityNumber: '22222222222' },
      ...verification,
    })
    expect(await bank.openAccount(order({ ...customer, verification }), signal)).toEqual({
      kind: 'rejected',
      fields: [{ field: 'otp', message: 'was not accepted by the bank' }],
    })
    const verified = { identityId: 'customer-2', otp: '' }
    const second = await bank.openAccount(order({ ...customer, verification: verified }), signal)
    expect(second.kind).toBe('opened')
    const sent = JSON.parse(bank.bodies.at(-1) ?? '')
    expect(sent).toMatchObject({ identityType: 'vID', identityId: 'customer-2' })
    expect(sent).not.toHaveProperty('identityNumber')
  })

  test('without the operator’s identity needs the customer’s', async () => {
    const own = { BANK_SAFEHAVEN_IDENTITY: 'customer', BANK_SAFEHAVEN_IDENTITY_ID: '' }
    expect(await connector(own).openAccount(order(), signal)).toMatchObject({
      kind: 'rejected',
      fields: [{ field: 'identityId', message: expect.stringMatching(/^is required/) }],
    })
    const verification = { identityId: 'customer-3', otp: '' }
    const result = await connector(own).openAccount(order({ verification }), signal)
    expect(result.kind).toBe('opened')
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
    haven.fake.faults.add('create', 'statusCode 409')
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
    const abort = new AbortController()
    const slow = { ...VIRTUAL, BANK_SAFEHAVEN_POLLS: '100', BANK_SAFEHAVEN_POLL_MS: '200' }
    const opening = connector(slow, { bank }).openAccount(order(), abort.signal)
    await waitUntil(() => bank.requests.get > 4)
    abort.abort()
    expect(await opening).toMatchObject({ kind: 'unknown', next: 'manual review' })
  })

  test('is closed by deleting it, which can be repeated', async () => {
    const bank = connector(VIRTUAL, { timeoutMs: 1_000 })
    const result = await bank.openAccount(order(), signal)
    if (result.kind !== 'opened') throw new Error(result.kind)
    const account = { reference: '', ...result }
    haven.fake.faults.add('delete', '500')
    expect(await bank.closeAccount?.(account, signal)).toMatchObject({ kind: 'unavailable' })
    haven.fake.faults.add('delete', 'hang after')
    expect(await bank.closeAccount?.(account, signal)).toMatchObject({ kind: 'unavailable' })
    await expect.poll(() => haven.fake.accounts.get(result.accountNumber)?.status).toBe('Closed')
    expect(await bank.closeAccount?.(account, signal)).toEqual({ kind: 'closed' })
  })

  test('has no statement', () => {
    expect(connector(VIRTUAL)).not.toHaveProperty('listPayments')
  })
})
