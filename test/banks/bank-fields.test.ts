import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  createFields,
  getPath,
  mergeFields,
  parseBalance,
  parseNaira,
  plainText,
  textOf,
} from '../../src/banks/bank-fields.ts'

describe('the text at a path of a bank’s JSON', () => {
  const body = { a: { b: { c: ' x ' } }, list: ['y'], number: 7, nothing: null }

  test.each([
    ['a.b.c', ' x '],
    ['list.0', 'y'],
    ['a.b', ''],
    ['a.b.c.d', ''],
    ['a.x', ''],
    ['nothing', ''],
    ['', ''],
    ['toString', ''],
    ['list.length', ''],
  ])('%s is "%s"', (path, text) => {
    expect(getPath(body, path)).toBe(text)
    expect(textOf(body, path)).toBe(text.trim())
  })

  test.each([undefined, null, 'text', 7])('is empty if the JSON is %s', (json) => {
    expect(getPath(json, 'length')).toBe('')
  })
})

test.each([
  ['468520.951', 46_852_095n],
  ['1.5E7', 1_500_000_000n],
  ['1.23456789012E10', 1_234_567_890_120n],
  ['-0.5', -50n],
  ['0', 0n],
  ['', undefined],
  ['1,000', undefined],
  ['1E-3', undefined],
  ['NaN', undefined],
])('the balance "%s" is %s kobo', (text, kobo) => {
  expect(parseBalance(text)).toBe(kobo)
})

test('naira are parsed as banks write them, to the kobo and without floats', () => {
  const kobo = fc.bigInt({ min: 0n, max: 10n ** 17n - 1n })
  fc.assert(
    fc.property(kobo, (minor) => {
      const [whole, cents] = [minor / 100n, minor % 100n]
      expect(parseNaira(`${whole}.${String(cents).padStart(2, '0')}`)).toBe(minor)
      expect(parseNaira(`${whole}`)).toBe(whole * 100n)
      expect(parseNaira(`${whole}.${cents / 10n}`)).toBe(whole * 100n + (cents / 10n) * 10n)
    }),
  )
  const refused = ['', '.5', '1.', '1.005', '1e3', '-1', '+1', ' 1', '1 ', '1,000', '1x00', '1.5\n']
  for (const text of [...refused, '1'.repeat(16)]) expect(parseNaira(text), text).toBeUndefined()
})

describe('the extra fields of a bank’s create request', () => {
  test.each([
    ['a field is added', { a: 1 }, { b: 2 }, { a: 1, b: 2 }],
    [
      'objects are merged',
      { a: { b: 1, c: { d: 1 } } },
      { a: { c: { e: 2 } } },
      { a: { b: 1, c: { d: 1, e: 2 } } },
    ],
    ['an object replaces a text', { a: 'x' }, { a: { b: 1 } }, { a: { b: 1 } }],
    ['lists are replaced', { a: [1, 2] }, { a: [3] }, { a: [3] }],
    ['an object replaces null', { a: null }, { a: { b: 1 } }, { a: { b: 1 } }],
  ])('%s', (_what, fields, overrides, merged) => {
    const before = structuredClone(fields)
    expect(mergeFields(fields, overrides)).toEqual(merged)
    expect(fields).toEqual(before)
  })

  test('cannot change what objects inherit, and stay ordinary fields', () => {
    const merged = mergeFields({}, JSON.parse('{"__proto__":{"polluted":1}}'))
    expect(Object.keys(merged)).toEqual(['__proto__'])
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
    expect(Object.getOwnPropertyDescriptor(mergeFields({}, { a: 1 }), 'a')).toEqual({
      value: 1,
      enumerable: true,
      configurable: true,
      writable: true,
    })
  })

  test('are a JSON object, none if the setting is not made', () => {
    expect(createFields.parse('{"order":{"country":"NGA"}}')).toEqual({ order: { country: 'NGA' } })
    expect(createFields.parse(undefined)).toEqual({})
    for (const text of ['[]', 'null', '"text"', '7', '{', 'x']) {
      expect(createFields.safeParse(text).success, text).toBe(false)
    }
  })
})

describe('a bank’s text', () => {
  test.each([
    ['BOLA ADE', 'BOLA ADE'],
    ['  ỌLÁ  ADÉ ', 'ỌLÁ  ADÉ'],
    ['a\0 b\n\r\u2028c', 'a b c'],
    ['\ud800lone', 'lone'],
    ['💰'.repeat(11), '💰'.repeat(10)],
    ['Ada\u200b\u00ad O\u200dbi', 'Ada Obi'],
    ['\u202eAD\u2066A', 'ADA'],
    ['علی\u200cرضا', 'علی\u200cرضا'],
    ['کککککککک\u200c\u200dک', 'ککککککککک'],
    ['ක්\u200dක්\u200dක්\u200dක්\u200d', 'ක්\u200dක්\u200dක්\u200dක'],
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
