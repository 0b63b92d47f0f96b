import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type AccountOrder, BANK_CODES, BANK_FACTS } from '../../src/banks/bank.ts'
import { isNuban, nuban } from '../../src/banks/nuban.ts'
import { createSandboxBank, MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { systemClock } from '../../src/core/clock.ts'
import { useSharedService } from '../support/service.ts'
import { accountOrder as order, signal } from './fixture.ts'

const service = useSharedService()
test.each(BANK_CODES)('%s opens accounts with valid numbers', async (bank) => {
  const result = await createSandboxBank(service.database.durablePool, systemClock).openAccount(
    order({ bank }),
    signal,
  )
  expect(result).toMatchObject({ kind: 'opened', accountName: 'Acme/Ada Obi' })
  const { accountNumber } = result as { accountNumber: string }
  expect(isNuban(BANK_FACTS[bank].nubanCode, accountNumber)).toBe(true)
})

test('several instances never allocate a number twice, across blocks', async () => {
  const instances = [1, 2, 3].map(() =>
    createSandboxBank(service.database.durablePool, systemClock),
  )
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
    createSandboxBank(service.database.durablePool, systemClock).openAccount(
      order(overrides),
      abort,
    )

  test('are recognised in international format, and succeed at the next attempt', async () => {
    const phone = `+234${MAGIC_PHONES.refuses.slice(1)}`
    expect(await open({ phone })).toEqual({ kind: 'unavailable', cause: 'temporary failure' })
    expect((await open({ phone, attempt: 2 })).kind).toBe('opened')
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

const institution = fc.stringMatching(/^(\d{3}|\d{6})$/)
const serials = fc.integer({ min: 0, max: 999_999_999 })

test.each([
  // Examples from the central bank's standard.
  ['011', 22, '0000000220'],
  ['011', 1_457, '0000014579'],
  // A three-digit code equals the same code padded to six digits.
  ['000011', 22, '0000000220'],
])('institution %s, serial %i makes %s', (code, serial, expected) => {
  expect(nuban(code, serial)).toBe(expected)
  expect(isNuban(code, expected)).toBe(true)
})

describe('the check digit', () => {
  test('of every generated number is valid', () => {
    fc.assert(
      fc.property(institution, serials, (code, serial) => {
        const number = nuban(code, serial)
        expect(number).toMatch(/^\d{10}$/)
        expect(Number(number.slice(0, 9))).toBe(serial)
        expect(isNuban(code, number)).toBe(true)
      }),
    )
  })

  test('detects every single wrong digit', () => {
    const digits = fc.integer({ min: 0, max: 9 })
    fc.assert(
      fc.property(institution, serials, digits, digits, (code, serial, at, digit) => {
        const number = nuban(code, serial)
        fc.pre(number[at] !== `${digit}`)
        expect(isNuban(code, `${number.slice(0, at)}${digit}${number.slice(at + 1)}`)).toBe(false)
      }),
    )
  })
})
