import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSealer, FINGERPRINT_BYTES } from '../src/secrets.ts'

const masterKey = randomBytes(32)
const sealer = createSealer(masterKey)

describe('a sealed text', () => {
  test('opens with the same key and context, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
        const sealed = createSealer(masterKey).seal(text, context)
        expect(sealer.open(sealed, context)).toBe(text)
        expect(sealer.open(new Uint8Array(sealed), context)).toBe(text)
      }),
    )
  })

  test('is another one each time, and never holds the text', () => {
    const copies = Array.from({ length: 1_000 }, () => sealer.seal('12345678901', 'c'))
    expect(new Set(copies.map((copy) => copy.toString('hex'))).size).toBe(1_000)
    expect(copies.some((copy) => copy.includes('12345678901'))).toBe(false)
  })

  test('does not open with another key or in another context', () => {
    const sealed = sealer.seal('text', 'id_number acc_1')
    expect(() => sealer.open(sealed, 'id_number acc_2')).toThrow()
    expect(() => sealer.open(sealed, '')).toThrow()
    expect(() => createSealer(randomBytes(32)).open(sealed, 'id_number acc_1')).toThrow(
      'master key',
    )
  })

  test('does not open when any bit of it is changed, or any end is cut', () => {
    const sealed = sealer.seal('12345678901', 'c')
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const changed = Buffer.from(sealed)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(() => sealer.open(changed, 'c'), `bit ${bit}`).toThrow()
    }
    for (let length = 0; length < sealed.length; length++) {
      expect(() => sealer.open(sealed.subarray(0, length), 'c'), `${length} bytes`).toThrow()
    }
  })
})

describe('a fingerprint', () => {
  test('is equal for equal texts alone, and another under another key', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, other) => {
        expect(sealer.fingerprint(one).equals(sealer.fingerprint(other))).toBe(one === other)
      }),
    )
    expect(sealer.fingerprint('x')).toHaveLength(FINGERPRINT_BYTES)
    expect(createSealer(randomBytes(32)).fingerprint('x').equals(sealer.fingerprint('x'))).toBe(
      false,
    )
  })
})
