import { describe, expect, test } from 'vitest'
import { signal, usePalmPay } from './fixture.ts'

const palm = usePalmPay()
const { connector, order, opened } = palm

/** PalmPay has confirmed to the operator that accounts can be looked up by reference. */
const BY_REFERENCE = { BANK_PALMPAY_FIND_BY: 'accountReference' }
const DOCUMENTED = { ...BY_REFERENCE, BANK_PALMPAY_NOT_OPENED_CODE: 'AC100001' }

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

  test.each(['500', 'code AC100003'] as const)(
    'after "%s" finds no account by the code that means so, and a retry opens one',
    async (fault) => {
      const request = order()
      const bank = connector(DOCUMENTED)
      palm.fake.faults.add('create', fault)
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

  test.each(['cut after', 'done, code AC100003'] as const)(
    'after "%s" finds the account',
    async (fault) => {
      const request = order()
      const bank = connector(BY_REFERENCE)
      palm.fake.faults.add('create', fault)
      expect(await bank.openAccount(request, signal)).toMatchObject({
        kind: 'unknown',
        next: 'requery',
      })
      const [account] = opened(request.reference)
      expect(await bank.findOpened?.(request, signal)).toMatchObject({
        kind: 'opened',
        accountNumber: account?.virtualAccountNo,
      })
    },
  )

  test('needs manual review if "not found" is not known to mean that nothing was opened', async () => {
    const bank = connector(BY_REFERENCE)
    expect(await bank.findOpened?.(order(), signal)).toEqual({
      kind: 'unknown',
      cause: 'AC100001 record not found',
      next: 'manual review',
    })
    const request = order({ attempt: 2, repeated: true })
    palm.fake.faults.add('create', 'code AC100009')
    expect(await bank.openAccount(request, signal)).toMatchObject({
      kind: 'unknown',
      next: 'manual review',
    })
  })

  test('finds an account by its number only if it has our reference', async () => {
    const request = order()
    const { virtualAccountNo: number } = palm.fake.openAccount('Ada Obi', request.reference)
    const stranger = palm.fake.openAccount('Other Customer', 'R-OTHER').virtualAccountNo
    const find = (accountNumber: string) => connector().findNumber?.(request, accountNumber, signal)
    expect(await find(number)).toMatchObject({ kind: 'opened', accountNumber: number })
    expect(await find(stranger)).toMatchObject({ kind: 'unknown', next: 'manual review' })
    expect(await find('0000000000')).toMatchObject({ kind: 'unavailable' })
    palm.fake.faults.add('queryOne', '500')
    expect(await find(number)).toMatchObject({ kind: 'unknown' })
    expect(connector({ BANK_PALMPAY_FIND_BY: 'none' }).findNumber).toBeUndefined()
  })

  test('needs manual review if accounts cannot be looked up by reference', async () => {
    const bank = connector()
    expect([bank.findOpened, bank.afterCrash]).toEqual([undefined, 'manual review'])
    palm.fake.faults.add('create', '500')
    const result = await bank.openAccount(order(), signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
  })

  test('needs manual review if the bank returns another reference', async () => {
    const request = order()
    // Queried by a field that it does not know, the bank may return any account.
    const other = palm.fake.openAccount('Other Customer', 'R-OTHER')
    const environment = {
      BANK_PALMPAY_CREATE_FIELDS: JSON.stringify({ accountReference: other.accountReference }),
    }
    const result = await connector(environment).openAccount(request, signal)
    expect(result).toMatchObject({ kind: 'unknown', next: 'manual review' })
  })

  test('finds the account if our own first attempt used the identity', async () => {
    const request = order()
    const bank = connector(DOCUMENTED)
    const account = palm.fake.openAccount('Acme/Ada Obi', request.reference)
    palm.fake.faults.add('create', 'code AC100009')
    expect(
      await bank.openAccount({ ...request, attempt: 2, repeated: true }, signal),
    ).toMatchObject({
      kind: 'opened',
      accountNumber: account.virtualAccountNo,
    })
    const other = order({ attempt: 2, repeated: true })
    palm.fake.faults.add('create', 'code AC100009')
    expect(await bank.openAccount(other, signal)).toMatchObject({ kind: 'rejected' })
    palm.fake.faults.add('create', 'code AC100009')
    palm.fake.faults.add('queryOne', '500')
    expect(await bank.openAccount(other, signal)).toMatchObject({
      kind: 'unknown',
      next: 'requery',
    })
  })
})
