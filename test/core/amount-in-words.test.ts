import { expect, test } from 'vitest'
import { amountInWords } from '../../src/core/amount-in-words.ts'

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
