import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  AMOUNT_MINOR_MAX,
  amountInWords,
  formatAmount,
  parseAmount,
  toMajorNumber,
} from '../../src/core/money.ts'

const amounts = fc.bigInt({ min: 0n, max: AMOUNT_MINOR_MAX })

test.each([
  ['0', 0n],
  ['0.1', 10n],
  ['0.01', 1n],
  ['1', 100n],
  ['1.5', 150n],
  ['1500.50', 150_050n],
  ['120.000', 12_000n],
  ['0.100000', 10n],
  ['10000000000000', AMOUNT_MINOR_MAX],
  ['10000000000000.00', AMOUNT_MINOR_MAX],
])('"%s" is read to the kobo', (text, kobo) => {
  expect(parseAmount(text)).toBe(kobo)
})

test.each([
  '',
  ' ',
  '.',
  '.5',
  '5.',
  '-1',
  '+1',
  '1e3',
  '1E3',
  '0.001',
  '1.234',
  '1,000',
  '1_000',
  ' 1',
  '1 ',
  '1\n',
  '0x10',
  'NaN',
  'Infinity',
  '１',
  '1.5.5',
  '₦5',
  '1234567890123456',
  'null',
])('"%s" is no amount', (text) => {
  expect(parseAmount(text)).toBeUndefined()
})

describe('for every amount', () => {
  test('parses what it formats', () => {
    fc.assert(
      fc.property(amounts, (kobo) => {
        expect(formatAmount(kobo)).toMatch(/^(0|[1-9]\d*)\.\d\d$/)
        expect(parseAmount(formatAmount(kobo))).toBe(kobo)
      }),
    )
  })

  test('the number of naira is exact: JSON writes it with at most two decimals', () => {
    fc.assert(
      fc.property(amounts, (kobo) => {
        const text = JSON.stringify(toMajorNumber(kobo))
        expect(text).toMatch(/^\d+(\.\d{1,2})?$/)
        expect(parseAmount(text)).toBe(kobo)
      }),
    )
  })

  test('rejects text that is not a plain decimal with at most two places', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), (text) => {
        const plain = /^\d+(\.\d{1,2}0*)?$/.test(text)
        expect(parseAmount(text) !== undefined).toBe(plain)
      }),
    )
  })
})

test.each([
  [0n, 'zero naira'],
  [5n, 'zero naira, five kobo'],
  [1_300n, 'thirteen naira'],
  [12_100n, 'one hundred and twenty-one naira'],
  [150_050n, 'one thousand, five hundred naira, fifty kobo'],
  [100_000_100n, 'one million and one naira'],
  [40_000_000n, 'four hundred thousand naira'],
  [12_342_100n, 'one hundred and twenty-three thousand, four hundred and twenty-one naira'],
  [1_000_000_000_000_000n, 'ten trillion naira'],
  [9_000_000_000_000_000_000n, 'ninety quadrillion naira'],
])('%s kobo in words: %s', (amountMinor, words) => {
  expect(amountInWords(amountMinor)).toBe(words)
})
