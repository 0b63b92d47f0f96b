import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BANK_FACTS } from '../../src/banks/bank.ts'
import { isNuban, nuban } from '../../src/banks/nuban.ts'

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

  test.each(['', '000000022', '00000002200', '000000022x', '٠000000220'])(
    'rejects "%s"',
    (text) => {
      expect(isNuban('011', text)).toBe(false)
    },
  )
})

test('every bank has a NUBAN code of three or six digits, and a six-digit interbank code', () => {
  for (const facts of Object.values(BANK_FACTS)) {
    expect(facts.nubanCode).toMatch(/^(\d{3}|\d{6})$/)
    expect(facts.interbankCode).toMatch(/^\d{6}$/)
  }
})
