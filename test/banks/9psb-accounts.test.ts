import { describe, expect, test } from 'vitest'
import type { NinePsbFault } from '../../src/fake-banks/9psb/9psb.ts'
import { aNinePsb } from './9psb-scene.ts'
import { anOrder, givenUpOnce, signal } from './live.ts'

describe('opening an account', () => {
  test('gives the number that the bank opened under our reference and name', async () => {
    const { bank, connector } = await aNinePsb()
    const result = await connector.openAccount(anOrder(), signal)
    const [account] = bank.accounts.values()
    expect(account).toMatchObject({ reference: anOrder().reference, name: 'Acme/Ada Obi' })
    expect(result).toEqual({
      kind: 'opened',
      accountNumber: account?.accountNumber,
      accountName: 'Acme/Ada Obi',
      bankAccountId: '',
    })
  })

  test('authenticates once for many', async () => {
    const { bank, connector } = await aNinePsb()
    const results = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        connector.openAccount(anOrder({ reference: `R-${i}` }), signal),
      ),
    )
    expect(results.every(({ kind }) => kind === 'opened')).toBe(true)
    expect(bank.requests.authenticate).toBe(1)
    expect(bank.accounts.size).toBe(30)
  })

  test.each([200, 400, 401])(
    'authenticates again, once for many, when the token has ended (HTTP %i)',
    async (refusalStatus) => {
      const { bank, connector } = await aNinePsb({ refusalStatus })
      await connector.openAccount(anOrder({ reference: 'R-0' }), signal)
      bank.expireTokens()
      const results = await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          connector.openAccount(anOrder({ reference: `R-${i + 1}` }), signal),
        ),
      )
      expect(results.every(({ kind }) => kind === 'opened')).toBe(true)
      expect(bank.requests.authenticate).toBe(2)
      expect(bank.accounts.size).toBe(11)
    },
  )

  test('renews the token before its end', async () => {
    let nowMs = Date.UTC(2026, 10, 21)
    const clock = { now: () => nowMs }
    const { bank, connector } = await aNinePsb({ clock }, {}, clock)
    await connector.openAccount(anOrder({ reference: 'R-1' }), signal)
    nowMs += 7_199_000
    await connector.openAccount(anOrder({ reference: 'R-2' }), signal)
    expect(bank.requests).toMatchObject({ authenticate: 2, create: 2 })
  })

  test('has the operator’s own fields, but the reference and the name stay ours', async () => {
    const BANK_9PSB_CREATE_FIELDS = JSON.stringify({
      transaction: { reference: 'theirs' },
      customer: { account: { name: 'theirs' } },
      order: { amounttype: 'WRONG' },
    })
    const { bank, connector } = await aNinePsb({}, { BANK_9PSB_CREATE_FIELDS })
    const refused = await connector.openAccount(anOrder(), signal)
    expect(refused).toMatchObject({
      kind: 'unavailable',
      cause: expect.stringContaining('amounttype is invalid'),
    })
    const fixed = { BANK_9PSB_CREATE_FIELDS: BANK_9PSB_CREATE_FIELDS.replace('WRONG', 'EXACT') }
    const other = await aNinePsb({}, fixed)
    expect((await other.connector.openAccount(anOrder(), signal)).kind).toBe('opened')
    expect([...other.bank.accounts.values()]).toMatchObject([
      { reference: anOrder().reference, name: 'Acme/Ada Obi' },
    ])
    expect(bank.accounts.size).toBe(0)
  })
})

describe('an opening that goes wrong', () => {
  test.each<[NinePsbFault, number]>([
    ['500', 0],
    ['500 after', 1],
    ['cut', 0],
    ['cut after', 1],
    ['page', 0],
    ['page after', 1],
    ['99', 0],
    ['99 after', 1],
  ])('with %s is not known to have opened anything, and may be repeated', async (fault, opened) => {
    const { bank, connector } = await aNinePsb()
    bank.faults.add('create', fault)
    const result = await connector.openAccount(anOrder(), signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'repeat' })
    expect(bank.accounts.size).toBe(opened)

    const again = await connector.openAccount(anOrder({ attempt: 2, repeated: true }), signal)
    expect(again).toMatchObject(
      opened === 0 ? { kind: 'opened' } : { kind: 'unknown', next: 'person' },
    )
    expect(bank.accounts.size).toBe(1)
  })

  test.each<[NinePsbFault, number]>([
    ['hang', 0],
    ['hang after', 1],
  ])('with a time-out is not known to have opened anything (%s)', async (fault, opened) => {
    const { bank, connector } = await aNinePsb()
    bank.faults.add('create', fault)
    const result = await givenUpOnce(
      () => bank.requests.create === 1,
      (until) => connector.openAccount(anOrder(), until),
    )
    expect(result).toMatchObject({ kind: 'unknown', next: 'repeat' })
    expect(bank.accounts.size).toBe(opened)
  })

  test.each<NinePsbFault>(['500', 'cut', 'page'])(
    'before it was let in has opened nothing (authenticate: %s)',
    async (fault) => {
      const { bank, connector } = await aNinePsb()
      bank.faults.add('authenticate', fault)
      expect((await connector.openAccount(anOrder(), signal)).kind).toBe('unavailable')
      expect(bank.requests.create).toBe(0)
      expect((await connector.openAccount(anOrder(), signal)).kind).toBe('opened')
    },
  )

  test('with wrong credentials says so, without them, and asks no more than once', async () => {
    const { bank, connector } = await aNinePsb({}, { BANK_9PSB_PRIVATE_KEY: 'wrong-key' })
    const result = await connector.openAccount(anOrder(), signal)
    expect(result).toMatchObject({ kind: 'unavailable', cause: expect.stringContaining('"S1"') })
    expect(JSON.stringify(result)).not.toContain('wrong-key')
    expect(bank.requests).toMatchObject({ authenticate: 1, create: 0 })
  })

  test('because this address is not let in asks twice, and has opened nothing', async () => {
    // Each token has ended when it is issued: the bank says S1 to whatever comes.
    const { bank, connector } = await aNinePsb({ tokenSeconds: 0 })
    expect((await connector.openAccount(anOrder(), signal)).kind).toBe('unavailable')
    expect(bank.requests).toMatchObject({ authenticate: 2, create: 2 })
  })

  test('with no bank there has opened nothing; what an earlier attempt did is still open', async () => {
    const { bank, connector } = await aNinePsb()
    await bank.close()
    expect((await connector.openAccount(anOrder(), signal)).kind).toBe('unavailable')
    const second = await connector.openAccount(anOrder({ attempt: 2, repeated: true }), signal)
    expect(second).toMatchObject({ kind: 'unknown', next: 'repeat' })
  })

  test('with a reference that was used needs a person', async () => {
    const { bank, connector } = await aNinePsb()
    bank.openAccount('Somebody', anOrder().reference)
    const result = await connector.openAccount(anOrder(), signal)
    expect(result).toMatchObject({
      kind: 'unknown',
      next: 'person',
      cause: expect.stringContaining('reference number must be unique'),
    })
    expect(bank.accounts.size).toBe(1)
  })
})

describe('closing an account', () => {
  const open = async () => {
    const scene = await aNinePsb()
    const { accountNumber, reference } = scene.bank.openAccount('Ada Obi', 'R-1')
    return { ...scene, account: { accountNumber, reference, bankAccountId: '' } }
  }

  test('makes the bank take no more money into it', async () => {
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

  test('fails for one that the bank does not know', async () => {
    const { connector, account } = await open()
    const unknown = { ...account, accountNumber: '0000000000' }
    expect(await connector.closeAccount?.(unknown, signal)).toMatchObject({
      kind: 'unavailable',
      cause: expect.stringContaining('not found'),
    })
  })
})
