import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainText } from '../../src/banks/bank-fields.ts'

describe('a bank’s text', () => {
  test.each([
    ['BOLA ADE', 'BOLA ADE'],
    ['  ỌLÁ  ADÉ ', 'ỌLÁ  ADÉ'],
    ['a\0 b\n\r\u2028c', 'a b c'],
    ['\ud800lone', 'lone'],
    ['\u0007', ''],
    ['12345678901', '1234567890'],
    ['💰'.repeat(11), '💰'.repeat(10)],
    ['Ada\u200b\u00ad O\u200dbi', 'Ada Obi'],
    ['\u202eAD\u2066A', 'ADA'],
    ['علی\u200cرضا', 'علی\u200cرضا'],
    ['کککککککک\u200c\u200dک', 'ککککککککک'],
    ['ක්\u200dක්\u200dක්\u200dක්\u200d', 'ක්\u200dක්\u200dක්\u200dක'],
    ['a\ue000\uffffb', 'a b'],
  ])('%j is stored as %j', (text, stored) => {
    expect(plainText(text, 10)).toBe(stored)
  })

  test('is always stored short and printable', () => {
    const joined = fc.string({
      unit: fc.constantFrom(...'کක්\u200c\u200d\u200b\n a'),
      maxLength: 60,
    })
    const texts = fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), joined)
    fc.assert(
      fc.property(texts, fc.nat(60), (text, max) => {
        const stored = plainText(text, max)
        expect([...stored].length).toBeLessThanOrEqual(max)
        // The rule of the contract for texts that people read.
        expect(stored).toMatch(
          /^([^\p{C}\p{Zl}\p{Zp}]|[\u0620-\u109f]([\u200c\u200d][\u0620-\u109f])+)*$/u,
        )
        expect(plainText(stored, max)).toBe(stored)
      }),
    )
  })
})
