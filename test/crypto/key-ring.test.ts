import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createEncrypter, FINGERPRINT_BYTES } from '../../src/crypto/encryption.ts'

/** Master keys that differ, the current one first. */
const masterKeys = (count: { minLength: number; maxLength: number }) =>
  fc.uniqueArray(
    fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes)),
    { ...count, selector: (key) => key.toString('hex') },
  )
const rotated = masterKeys({ minLength: 2, maxLength: 4 }).map((keys) => {
  const [current, ...others] = keys as [Buffer, Buffer, ...Buffer[]]
  return {
    current,
    others,
    alone: createEncrypter(current),
    ring: createEncrypter(current, others),
  }
})
const unknown = createEncrypter(Buffer.alloc(32, 7))

describe('during a rotation of the master key', () => {
  test('values under each known key are read, and new ones are under the current key', () => {
    fc.assert(
      fc.property(rotated, fc.string(), ({ current, others, alone, ring }, text) => {
        for (const key of [current, ...others]) {
          expect(ring.decrypt(createEncrypter(key).encrypt(text, 'c'), 'c')).toBe(text)
        }
        expect(alone.decrypt(ring.encrypt(text, 'c'), 'c')).toBe(text)
        expect(ring.encrypt(text, 'c').subarray(0, 5)).toEqual(alone.head)
      }),
    )
  })

  test('the known keys are named once each, the current one first', () => {
    fc.assert(
      fc.property(rotated, ({ current, others }) => {
        const ids = [current, ...others].map((key) => createEncrypter(key).keyId)
        const ring = createEncrypter(current, [...others, current, ...others])
        expect(ring.knownKeyIds).toEqual(ids)
        expect(ring.keyId).toBe(ids[0])
        expect(ring.keyId).toMatch(/^[0-9a-f]{8}$/)
        expect(ring.head.toString('hex')).toBe(`01${ids[0]}`)
      }),
    )
    const alone = createEncrypter(Buffer.alloc(32, 1))
    expect(alone.knownKeyIds).toEqual([alone.keyId])
  })

  test('a text is searched for by its hash under each known key, the current one first', () => {
    fc.assert(
      fc.property(rotated, fc.string(), ({ current, others, ring }, text) => {
        const hashes = [current, ...others].map((key) => createEncrypter(key).fingerprint(text))
        expect(ring.fingerprints(text)).toEqual(hashes)
        expect(ring.fingerprint(text)).toEqual(hashes[0])
      }),
    )
  })

  test('a hash matches its own text only, under any known key, also as the first release stored it', () => {
    fc.assert(
      fc.property(rotated, fc.string(), fc.string(), ({ current, others, ring }, text, other) => {
        for (const key of [current, ...others]) {
          const hash = createEncrypter(key).fingerprint(text)
          for (const stored of [hash, hash.subarray(-32), new Uint8Array(hash)]) {
            expect(ring.matches(text, stored)).toBe(true)
            expect(ring.matches(other, stored)).toBe(other === text)
          }
        }
      }),
    )
  })

  test('a MAC is of its own text only, under any known key', () => {
    fc.assert(
      fc.property(rotated, fc.string(), fc.string(), ({ current, others, ring }, text, other) => {
        for (const key of [current, ...others]) {
          const mac = createEncrypter(key).mac(text)
          expect(mac).toHaveLength(FINGERPRINT_BYTES)
          expect(ring.knowsKeyOf(mac)).toBe(true)
          expect(ring.isMacOf(text, mac)).toBe(true)
          expect(ring.isMacOf(other, mac)).toBe(other === text)
        }
        expect(ring.mac(text)).toEqual(createEncrypter(current).mac(text))
      }),
    )
  })

  test('replaced keys are forgotten', () => {
    const encrypter = createEncrypter(Buffer.alloc(32, 1))
    const encrypted = encrypter.encrypt('text', 'c')
    encrypter.use({ current: Buffer.alloc(32, 2), others: [Buffer.alloc(32, 1)] })
    expect(encrypter.decrypt(encrypted, 'c')).toBe('text')
    encrypter.use({ current: Buffer.alloc(32, 2), others: [] })
    expect(() => encrypter.decrypt(encrypted, 'c')).toThrow('master key')
  })
})

describe('what is under an unknown key', () => {
  const encrypter = () => createEncrypter(Buffer.alloc(32, 1), [Buffer.alloc(32, 2)])

  test('is refused, and a MAC of it is no MAC', () => {
    expect(() => encrypter().decrypt(unknown.encrypt('x', 'c'), 'c')).toThrow('master key')
    expect(() => encrypter().matches('x', unknown.fingerprint('x'))).toThrow('master key')
    expect(encrypter().matches('x', unknown.fingerprint('x').subarray(-32))).toBe(false)
    expect(encrypter().isMacOf('x', unknown.mac('x'))).toBe(false)
    expect(encrypter().knowsKeyOf(unknown.mac('x'))).toBe(false)
  })

  test.each(['encrypt', 'fingerprint'] as const)(
    'of another version, made by %s, is refused',
    (make) => {
      const made = encrypter()[make]('x', 'c')
      made[0] = 2
      const use = () =>
        make === 'encrypt' ? encrypter().decrypt(made, 'c') : encrypter().matches('x', made)
      expect(use).toThrow('version')
    },
  )

  test('is never taken for whole when it is cut short or lengthened', () => {
    const [hash, mac] = [encrypter().fingerprint('x'), encrypter().mac('x')]
    for (let bytes = 5; bytes < FINGERPRINT_BYTES; bytes++) {
      // As many bytes as the first release stored are compared as such.
      expect(encrypter().matches('x', hash.subarray(0, bytes)), `${bytes} bytes`).toBe(false)
      expect(encrypter().isMacOf('x', mac.subarray(0, bytes)), `${bytes} bytes`).toBe(false)
    }
    expect(encrypter().matches('x', Buffer.concat([hash, Buffer.of(0)]))).toBe(false)
    expect(encrypter().isMacOf('x', Buffer.concat([mac, Buffer.of(0)]))).toBe(false)
    expect(encrypter().isMacOf('x', Buffer.alloc(0))).toBe(false)
  })

  test('cannot be made of what has another purpose: a hash is no MAC', () => {
    expect(encrypter().isMacOf('x', encrypter().fingerprint('x'))).toBe(false)
    expect(encrypter().matches('x', encrypter().mac('x'))).toBe(false)
  })
})
