import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createEncrypter, FINGERPRINT_BYTES } from '../../src/crypto/encryption.ts'

const masterKey = randomBytes(32)
const encrypter = createEncrypter(masterKey)

describe('an encrypted text', () => {
  test('is decrypted with the same key and context, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
        const encrypted = createEncrypter(masterKey).encrypt(text, context)
        expect(encrypter.decrypt(encrypted, context)).toBe(text)
        expect(encrypter.decrypt(new Uint8Array(encrypted), context)).toBe(text)
      }),
    )
  })

  test('differs each time, and never contains the text', () => {
    const copies = Array.from({ length: 1_000 }, () => encrypter.encrypt('12345678901', 'c'))
    expect(new Set(copies.map((copy) => copy.toString('hex'))).size).toBe(1_000)
    expect(copies.some((copy) => copy.includes('12345678901'))).toBe(false)
  })

  test('is not decrypted with another key or in another context', () => {
    const encrypted = encrypter.encrypt('text', 'id_number acc_1')
    expect(() => encrypter.decrypt(encrypted, 'id_number acc_2')).toThrow()
    expect(() => encrypter.decrypt(encrypted, '')).toThrow()
    expect(() => createEncrypter(randomBytes(32)).decrypt(encrypted, 'id_number acc_1')).toThrow(
      'master key',
    )
  })

  test('is not decrypted when any bit is changed or the end is cut off', () => {
    const encrypted = encrypter.encrypt('12345678901', 'c')
    for (let bit = 0; bit < encrypted.length * 8; bit++) {
      const changed = Buffer.from(encrypted)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(() => encrypter.decrypt(changed, 'c'), `bit ${bit}`).toThrow()
    }
    for (let length = 0; length < encrypted.length; length++) {
      expect(
        () => encrypter.decrypt(encrypted.subarray(0, length), 'c'),
        `${length} bytes`,
      ).toThrow()
    }
  })

  test('is not decrypted when its tag is cut short, even if the text is empty', () => {
    const encrypted = encrypter.encrypt('', 'c')
    for (let bytes = 1; bytes <= 16; bytes++) {
      const cut = encrypted.subarray(0, encrypted.length - bytes)
      expect(() => encrypter.decrypt(cut, 'c'), `${bytes} bytes`).toThrow()
    }
    expect(encrypter.decrypt(encrypted, 'c')).toBe('')
  })
})

describe('a fingerprint', () => {
  test('is equal for equal texts only, and differs under another key', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, other) => {
        expect(encrypter.fingerprint(one).equals(encrypter.fingerprint(other))).toBe(one === other)
      }),
    )
    expect(encrypter.fingerprint('x')).toHaveLength(FINGERPRINT_BYTES)
    // Not only by the id of the key, with which it begins.
    const [own, other] = [encrypter, createEncrypter(randomBytes(32))].map((each) =>
      each.fingerprint('x').subarray(-16).toString('hex'),
    )
    expect(other).not.toBe(own)
  })
})
