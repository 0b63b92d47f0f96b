import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createEncrypter, FINGERPRINT_BYTES } from '../../src/crypto/encryption.ts'

const masterKey = randomBytes(32)
const encrypter = createEncrypter(masterKey)

describe('a sealed text', () => {
  test('opens with the same key and context, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
        const sealed = createEncrypter(masterKey).seal(text, context)
        expect(encrypter.open(sealed, context)).toBe(text)
        expect(encrypter.open(new Uint8Array(sealed), context)).toBe(text)
      }),
    )
  })

  test('is another one each time, and never holds the text', () => {
    const copies = Array.from({ length: 1_000 }, () => encrypter.seal('12345678901', 'c'))
    expect(new Set(copies.map((copy) => copy.toString('hex'))).size).toBe(1_000)
    expect(copies.some((copy) => copy.includes('12345678901'))).toBe(false)
  })

  test('does not open with another key or in another context', () => {
    const sealed = encrypter.seal('text', 'id_number acc_1')
    expect(() => encrypter.open(sealed, 'id_number acc_2')).toThrow()
    expect(() => encrypter.open(sealed, '')).toThrow()
    expect(() => createEncrypter(randomBytes(32)).open(sealed, 'id_number acc_1')).toThrow(
      'master key',
    )
  })

  test('does not open when any bit of it is changed, or any end is cut', () => {
    const sealed = encrypter.seal('12345678901', 'c')
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const changed = Buffer.from(sealed)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(() => encrypter.open(changed, 'c'), `bit ${bit}`).toThrow()
    }
    for (let length = 0; length < sealed.length; length++) {
      expect(() => encrypter.open(sealed.subarray(0, length), 'c'), `${length} bytes`).toThrow()
    }
  })
})

describe('a fingerprint', () => {
  test('is equal for equal texts alone, and another under another key', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, other) => {
        expect(encrypter.fingerprint(one).equals(encrypter.fingerprint(other))).toBe(one === other)
      }),
    )
    expect(encrypter.fingerprint('x')).toHaveLength(FINGERPRINT_BYTES)
    expect(
      createEncrypter(randomBytes(32)).fingerprint('x').equals(encrypter.fingerprint('x')),
    ).toBe(false)
  })
})
