import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainText } from '../../src/banks/plain-text.ts'

describe('a bank’s text', () => {
  test.each([
    ['BOLA ADE', 'BOLA ADE'],
    ['  ỌLÁ  ADÉ ', 'ỌLÁ  ADÉ'],
    ['a\0 b\n\r\u2028c', 'a b c'],
    ['\ud800lone', 'lone'],
    ['\u0007', ''],
    ['12345678901', '1234567890'],
    ['💰'.repeat(11), '💰'.repeat(10)],
  ])('%j is stored as %j', (text, stored) => {
    expect(plainText(text, 10)).toBe(stored)
  })

  test('is always stored short and printable', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.nat(60), (text, max) => {
        const stored = plainText(text, max)
        expect([...stored].length).toBeLessThanOrEqual(max)
        expect(stored).not.toMatch(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u)
        expect(plainText(stored, max)).toBe(stored)
      }),
    )
  })
})
