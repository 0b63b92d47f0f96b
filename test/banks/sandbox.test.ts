import { describe, expect, test } from 'vitest'
import { type AccountOrder, BANK_CODES, BANK_FACTS } from '../../src/banks/bank.ts'
import { isNuban } from '../../src/banks/nuban.ts'
import { createSandboxBank, MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { useDatabase } from '../support/database.ts'

const db = useDatabase()
const signal = new AbortController().signal

function order(overrides: Partial<AccountOrder> = {}): AccountOrder {
  return {
    bank: '9PSB',
    reference: 'R-1',
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

test.each(BANK_CODES)('%s opens accounts with valid numbers', async (bank) => {
  const result = await createSandboxBank(db.database.durablePool).openAccount(
    order({ bank }),
    signal,
  )
  expect(result).toMatchObject({ kind: 'opened', accountName: 'Acme/Ada Obi' })
  const { accountNumber } = result as { accountNumber: string }
  expect(isNuban(BANK_FACTS[bank].nubanCode, accountNumber)).toBe(true)
})

test('several instances never allocate a number twice, across blocks', async () => {
  const instances = [1, 2, 3].map(() => createSandboxBank(db.database.durablePool))
  const results = await Promise.all(
    instances.flatMap((bank) =>
      Array.from({ length: 400 }, () => bank.openAccount(order(), signal)),
    ),
  )
  const numbers = results.map((result) => (result.kind === 'opened' ? result.accountNumber : ''))
  expect(new Set(numbers).size).toBe(1_200)
})

describe('phone numbers that make the sandbox fail', () => {
  const open = (overrides: Partial<AccountOrder>, abort = signal) =>
    createSandboxBank(db.database.durablePool).openAccount(order(overrides), abort)

  test.each(['', '+'])('are recognised in international format', async (plus) => {
    const phone = `${plus}234${MAGIC_PHONES.refuses.slice(1)}`
    expect((await open({ phone })).kind).toBe('unavailable')
  })

  test('fail once and succeed at the next attempt', async () => {
    const phone = MAGIC_PHONES.refuses
    expect(await open({ phone })).toEqual({ kind: 'unavailable', cause: 'temporary failure' })
    expect((await open({ phone, attempt: 2 })).kind).toBe('opened')
  })

  test('reject the customer every time', async () => {
    for (const attempt of [1, 2, 3]) {
      const result = await open({ phone: MAGIC_PHONES.rejects, attempt })
      expect(result).toMatchObject({ kind: 'rejected', fields: [{ field: 'idNumber' }] })
    }
  })

  test.each(['timesOut', 'respondsLate'] as const)(
    '%s stops when the signal aborts',
    async (kind) => {
      const cancelled = AbortSignal.timeout(10)
      const late = open({ phone: MAGIC_PHONES[kind] }, cancelled)
      await expect(late).rejects.toMatchObject({ name: 'AbortError' })
    },
  )
})
