import { describe, expect, test } from 'vitest'
import type { ProvidusFault } from '../../src/banks/providus/fake.ts'
import { abortedOnce, accountOrder, signal } from './fixture.ts'
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

describe('a failed opening', () => {
  test.each<[ProvidusFault, number]>([
    ['500', 0],
    ['500 after', 1],
    ['cut', 0],
    ['cut after', 1],
    ['page', 0],
    ['page after', 1],
  ])('with %s needs manual review', async (fault, opened) => {
    const { bank, connector } = await providusFixture()
    bank.faults.add('create', fault)
    const result = await connector.openAccount(order, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
    expect(bank.accounts.size).toBe(opened)
    expect(bank.requests.create).toBe(1)
  })

  test.each<[ProvidusFault, number]>([
    ['hang', 0],
    ['hang after', 1],
  ])('with a timeout needs manual review (%s)', async (fault, opened) => {
    const { bank, connector } = await providusFixture()
    bank.faults.add('create', fault)
    const result = await abortedOnce(
      () => bank.requests.create === 1,
      (abort) => connector.openAccount(order, abort),
    )
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
    expect(bank.accounts.size).toBe(opened)
  })

  test.each<[ProvidusFault, number]>([
    ['03', 200],
    ['05', 200],
    ['11', 200],
    ['11', 400],
    ['05', 401],
  ])('with an explicit rejection (%s in HTTP %i) opens nothing', async (fault, errorStatus) => {
    const { bank, connector } = await providusFixture({ errorStatus })
    bank.faults.add('create', fault)
    expect(await connector.openAccount(order, signal)).toMatchObject({
      kind: 'unavailable',
      cause: expect.stringContaining(`HTTP ${errorStatus}, responseCode "${fault}"`),
    })
    expect(bank.accounts.size).toBe(0)
  })

  test('with a rejection in HTTP 500 needs manual review', async () => {
    const { bank, connector } = await providusFixture({ errorStatus: 500 })
    bank.faults.add('create', '03')
    const result = await connector.openAccount(order, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
  })

  test('with a wrong secret reports it without the secret', async () => {
    const { bank, connector } = await providusFixture(
      {},
      { BANK_PROVIDUS_CLIENT_SECRET: 'wrong-secret' },
    )
    const result = await connector.openAccount(order, signal)
    expect(result).toMatchObject({ kind: 'unavailable', cause: expect.stringContaining('"05"') })
    expect(JSON.stringify(result)).not.toContain('wrong-secret')
    expect(bank.accounts.size).toBe(0)
  })

  test('opens nothing if the bank is unreachable', async () => {
    const { bank, connector } = await providusFixture()
    await bank.close()
    expect((await connector.openAccount(order, signal)).kind).toBe('unavailable')
  })

  test('opens nothing at a path that is not served', async () => {
    const { connector } = await providusFixture({}, { BANK_PROVIDUS_CREATE_PATH: 'moved/away' })
    expect((await connector.openAccount(order, signal)).kind).toBe('unavailable')
  })
})

test('does not close accounts: the bank would stop notifying their payments', async () => {
  const { connector } = await providusFixture()
  expect(connector.closeAccount).toBeUndefined()
  expect(connector.listing).toBeUndefined()
})
