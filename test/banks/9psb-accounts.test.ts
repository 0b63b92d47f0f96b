import { describe, expect, test } from 'vitest'
import type { NinePsbFault } from '../../src/banks/9psb/fake.ts'
import { ninePsbFixture } from './9psb-fixture.ts'
import { abortedOnce, accountOrder, signal } from './fixture.ts'

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

  test('authenticates once for concurrent openings', async () => {
    const { bank, connector } = await ninePsbFixture()
    const results = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        connector.openAccount(accountOrder({ reference: `R-${i}` }), signal),
      ),
    )
    expect(results.every(({ kind }) => kind === 'opened')).toBe(true)
    expect(bank.requests.authenticate).toBe(1)
    expect(bank.accounts.size).toBe(30)
  })

  test.each([200, 400, 401])(
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

  test('renews the token before it expires', async () => {
    let nowMs = Date.UTC(2026, 10, 21)
    const clock = { now: () => nowMs }
    const { bank, connector } = await ninePsbFixture({ clock }, {}, clock)
    await connector.openAccount(accountOrder({ reference: 'R-1' }), signal)
    nowMs += 7_199_000
    await connector.openAccount(accountOrder({ reference: 'R-2' }), signal)
    expect(bank.requests).toMatchObject({ authenticate: 2, create: 2 })
  })

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
    ['500', 0],
    ['500 after', 1],
    ['cut', 0],
    ['cut after', 1],
    ['page', 0],
    ['page after', 1],
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

  test.each<[NinePsbFault, number]>([
    ['hang', 0],
    ['hang after', 1],
  ])('with a timeout has an unknown result (%s)', async (fault, opened) => {
    const { bank, connector } = await ninePsbFixture()
    bank.faults.add('create', fault)
    const result = await abortedOnce(
      () => bank.requests.create === 1,
      (abort) => connector.openAccount(accountOrder(), abort),
    )
    expect(result).toMatchObject({ kind: 'unknown', next: 'retry' })
    expect(bank.accounts.size).toBe(opened)
  })

  test.each<NinePsbFault>(['500', 'cut', 'page'])(
    'opens nothing if authentication fails (%s)',
    async (fault) => {
      const { bank, connector } = await ninePsbFixture()
      bank.faults.add('authenticate', fault)
      expect((await connector.openAccount(accountOrder(), signal)).kind).toBe('unavailable')
      expect(bank.requests.create).toBe(0)
      expect((await connector.openAccount(accountOrder(), signal)).kind).toBe('opened')
    },
  )

  test('with wrong credentials reports it without the credentials, after one request', async () => {
    const { bank, connector } = await ninePsbFixture({}, { BANK_9PSB_PRIVATE_KEY: 'wrong-key' })
    const result = await connector.openAccount(accountOrder(), signal)
    expect(result).toMatchObject({ kind: 'unavailable', cause: expect.stringContaining('"S1"') })
    expect(JSON.stringify(result)).not.toContain('wrong-key')
    expect(bank.requests).toMatchObject({ authenticate: 1, create: 0 })
  })

  test('with an address that is not allowed opens nothing and retries once', async () => {
    // Tokens expire at once, so the bank responds S1 to every call.
    const { bank, connector } = await ninePsbFixture({ tokenSeconds: 0 })
    expect((await connector.openAccount(accountOrder(), signal)).kind).toBe('unavailable')
    expect(bank.requests).toMatchObject({ authenticate: 2, create: 2 })
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

describe('closing an account', () => {
  const open = async () => {
    const fixture = await ninePsbFixture()
    const { accountNumber, reference } = fixture.bank.openAccount('Ada Obi', 'R-1')
    return { ...fixture, account: { accountNumber, reference, bankAccountId: '' } }
  }

  test('makes the bank reject payments into it', async () => {
    const { bank, connector, account } = await open()
    expect(await connector.closeAccount?.(account, signal)).toEqual({ kind: 'closed' })
    expect(bank.accounts.get(account.accountNumber)?.active).toBe(false)
    expect(await connector.closeAccount?.(account, signal)).toEqual({ kind: 'closed' })
  })

  test.each<NinePsbFault>(['500', 'cut after', 'page', '99'])('fails with %s', async (fault) => {
    const { bank, connector, account } = await open()
    bank.faults.add('deactivate', fault)
    expect(await connector.closeAccount?.(account, signal)).toMatchObject({ kind: 'unavailable' })
  })

  test('fails for an account that the bank does not know', async () => {
    const { connector, account } = await open()
    const unknown = { ...account, accountNumber: '0000000000' }
    expect(await connector.closeAccount?.(unknown, signal)).toMatchObject({
      kind: 'unavailable',
      cause: expect.stringContaining('not found'),
    })
  })
})
