import { describe, expect, test } from 'vitest'
import type { ProvidusFault } from '../../src/fake-banks/providus/providus.ts'
import { anOrder, givenUpOnce, signal } from './live.ts'
import { aProvidus } from './providus-scene.ts'

const order = anOrder({ bank: 'PROVIDUS' })

describe('opening an account', () => {
  test('gives the number and the name that the bank opened', async () => {
    const { bank, connector } = await aProvidus()
    const result = await connector.openAccount(order, signal)
    const [account] = bank.accounts.values()
    expect(result).toEqual({
      kind: 'opened',
      accountNumber: account?.accountNumber,
      accountName: 'MERCHANT(Acme/Ada Obi)',
      bankAccountId: '',
    })
  })

  test('has the operator’s own fields, but the name stays ours', async () => {
    const fields = { account_name: 'theirs', bvn: '22222222222' }
    const env = { BANK_PROVIDUS_CREATE_FIELDS: JSON.stringify(fields) }
    const { bank, connector } = await aProvidus({}, env)
    await connector.openAccount(order, signal)
    expect([...bank.accounts.values()]).toMatchObject([{ accountName: 'MERCHANT(Acme/Ada Obi)' }])
  })

  test('is never repeated by itself', async () => {
    const { bank, connector } = await aProvidus()
    const result = await connector.openAccount({ ...order, attempt: 2, repeated: true }, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'person' })
    expect(bank.requests.create).toBe(0)
  })
})

describe('an opening that goes wrong', () => {
  test.each<[ProvidusFault, number]>([
    ['500', 0],
    ['500 after', 1],
    ['cut', 0],
    ['cut after', 1],
    ['page', 0],
    ['page after', 1],
  ])('with %s needs a person', async (fault, opened) => {
    const { bank, connector } = await aProvidus()
    bank.faults.add('create', fault)
    const result = await connector.openAccount(order, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'person' })
    expect(bank.accounts.size).toBe(opened)
    expect(bank.requests.create).toBe(1)
  })

  test.each<[ProvidusFault, number]>([
    ['hang', 0],
    ['hang after', 1],
  ])('with a time-out needs a person (%s)', async (fault, opened) => {
    const { bank, connector } = await aProvidus()
    bank.faults.add('create', fault)
    const result = await givenUpOnce(
      () => bank.requests.create === 1,
      (until) => connector.openAccount(order, until),
    )
    expect(result).toMatchObject({ kind: 'unknown', next: 'person' })
    expect(bank.accounts.size).toBe(opened)
  })

  test.each<[ProvidusFault, number]>([
    ['03', 200],
    ['05', 200],
    ['11', 200],
    ['11', 400],
    ['05', 401],
  ])('with a plain refusal (%s in HTTP %i) has opened nothing', async (fault, refusalStatus) => {
    const { bank, connector } = await aProvidus({ refusalStatus })
    bank.faults.add('create', fault)
    expect(await connector.openAccount(order, signal)).toMatchObject({
      kind: 'unavailable',
      cause: expect.stringContaining(`HTTP ${refusalStatus}, responseCode "${fault}"`),
    })
    expect(bank.accounts.size).toBe(0)
  })

  test('with a refusal in HTTP 500 needs a person', async () => {
    const { bank, connector } = await aProvidus({ refusalStatus: 500 })
    bank.faults.add('create', '03')
    const result = await connector.openAccount(order, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'person' })
  })

  test('with a wrong secret says so, without it', async () => {
    const { bank, connector } = await aProvidus({}, { BANK_PROVIDUS_CLIENT_SECRET: 'wrong-secret' })
    const result = await connector.openAccount(order, signal)
    expect(result).toMatchObject({ kind: 'unavailable', cause: expect.stringContaining('"05"') })
    expect(JSON.stringify(result)).not.toContain('wrong-secret')
    expect(bank.accounts.size).toBe(0)
  })

  test('with no bank there has opened nothing', async () => {
    const { bank, connector } = await aProvidus()
    await bank.close()
    expect((await connector.openAccount(order, signal)).kind).toBe('unavailable')
  })

  test('at a path that is not served has opened nothing', async () => {
    const { connector } = await aProvidus({}, { BANK_PROVIDUS_CREATE_PATH: 'moved/away' })
    expect((await connector.openAccount(order, signal)).kind).toBe('unavailable')
  })
})

test('accounts are blocked here: on the bank’s black list their money would not be told of', async () => {
  const { connector } = await aProvidus()
  expect(connector.closeAccount).toBeUndefined()
  expect(connector.listing).toBeUndefined()
})
