import { describe, expect, test } from 'vitest'
import { generateSafeHavenCredentials } from '../../../src/banks/safehaven/fake/safehaven.ts'
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

  test.each(['statusCode 400', 'statusCode 429', 'statusCode 402'] as const)(
    'opens nothing after "%s" inside HTTP 200',
    async (fault) => {
      haven.fake.faults.add('create', fault)
      const result = await connector(environment).openAccount(order(), signal)
      expect(result).toMatchObject({ kind: 'unavailable' })
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
      identityType: 'BVN',
      identityNumber: '22222222222',
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
})

describe('tokens', () => {
  test('are requested as JSON if configured', async () => {
    const environment = { BANK_SAFEHAVEN_TOKEN_FORM: 'json' }
    expect((await connector(environment).openAccount(order(), signal)).kind).toBe('opened')
  })

  test('come with the client id for calls; a rejected token is renewed once', async () => {
    const environment = { BANK_SAFEHAVEN_CLIENT_ID: 'another' }
    const result = await connector(environment).openAccount(order(), signal)
    expect(result).toEqual({
      kind: 'unavailable',
      cause: 'no token: 401 Invalid client.',
      refusal: 'access',
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
