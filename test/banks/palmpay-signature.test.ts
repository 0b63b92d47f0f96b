import { createHash, generateKeyPairSync, publicDecrypt } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  generatePalmPayCredentials,
  isRequestSigned,
  signFake,
} from '../../src/banks/palmpay/fake.ts'
import { isSigned, isUnambiguous, signFields } from '../../src/banks/palmpay/signature.ts'
import { parsePrivateKey, parsePublicKey } from '../../src/banks/settings.ts'

const { merchantPrivateKey, merchantPublicKey, bankPrivateKey, bankPublicKey } =
  generatePalmPayCredentials()

const name = fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9]{0,12}$/)
const fields = fc.dictionary(name, fc.string({ unit: 'grapheme', maxLength: 20 }), { maxKeys: 12 })

test('an independent implementation verifies our signatures', () => {
  fc.assert(
    fc.property(fields, (signed) => {
      const signature = signFields(signed, merchantPrivateKey)
      expect(isRequestSigned(signed, signature, merchantPublicKey)).toBe(true)
    }),
    { numRuns: 50 },
  )
})

test('verifies the bank’s signatures, URL-encoded or not, of trimmed or untrimmed values', () => {
  fc.assert(
    fc.property(fields, fc.boolean(), fc.boolean(), (signed, encoded, trimmed) => {
      const texts = Object.entries(signed).map(([key, value]) => [
        key,
        trimmed ? value.trim() : value,
      ])
      const signature = signFake(Object.fromEntries(texts), bankPrivateKey)
      const sent = encoded ? encodeURIComponent(signature) : signature
      expect(isSigned(signed, sent, bankPublicKey)).toBe(true)
    }),
    { numRuns: 50 },
  )
})

test('rejects a signature of other fields', () => {
  const other = fc.string({ minLength: 1, maxLength: 10 })
  fc.assert(
    fc.property(fields, name, other, (signed, key, value) => {
      const before = Object.hasOwn(signed, key) ? (signed[key] ?? '') : ''
      fc.pre(before.trim() !== value.trim())
      const changed = { ...signed, [key]: value }
      fc.pre(isUnambiguous(signed) && isUnambiguous(changed))
      const signature = signFake(signed, bankPrivateKey)
      expect(isSigned(changed, signature, bankPublicKey)).toBe(false)
    }),
    { numRuns: 50 },
  )
})

test('signs with RSA-SHA1 over the upper-case MD5, sorted by the code units of the names', () => {
  const fields = { b: '1', a: ' x ', B: '2', empty: '', blank: '  ' }
  const signature = signFields(fields, bankPrivateKey)
  const hash = (name: string, text: string) => createHash(name).update(text)
  const md5 = hash('md5', 'B=2&a=x&b=1').digest('hex').toUpperCase()
  // PKCS#1 v1.5: publicDecrypt removes the padding; the hash follows its identifier.
  const plain = publicDecrypt(bankPublicKey, Buffer.from(signature, 'base64'))
  expect(plain.subarray(-20)).toEqual(hash('sha1', md5).digest())
  expect(isSigned({ B: '2', a: 'x', b: '1' }, signature, bankPublicKey)).toBe(true)
  expect(isSigned({ B: '2', a: 'x', b: '1', c: '' }, signature, bankPublicKey)).toBe(true)
  expect(isSigned({ B: '2', a: 'x', b: '10' }, signature, bankPublicKey)).toBe(false)
})

test.each(['', '%', '%ZZ', 'not base64!', 'AAAA', '=', 'A'.repeat(5_000)])(
  'rejects an invalid signature: %s',
  (signature) => {
    expect(isSigned({ a: '1' }, signature, bankPublicKey)).toBe(false)
  },
)

test('a value that could contain another field is ambiguous', () => {
  expect(isUnambiguous({ payerAccountName: 'Tom = Jerry', orderAmount: '1' })).toBe(true)
  expect(isUnambiguous({ payerAccountName: 'Tom & Sons' })).toBe(false)
  expect(isUnambiguous({ 'a=1&b': '2' })).toBe(false)
  expect(isUnambiguous({ list: '["a"]' })).toBe(false)
})

describe('keys', () => {
  const pair = generateKeyPairSync('rsa', { modulusLength: 1_024 })
  const base64 = (der: Buffer) => der.toString('base64')
  const privates = {
    'PKCS#8 PEM': pair.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    'PKCS#1 PEM': pair.privateKey.export({ format: 'pem', type: 'pkcs1' }).toString(),
    'bare PKCS#8': base64(pair.privateKey.export({ format: 'der', type: 'pkcs8' })),
    'bare PKCS#1': base64(pair.privateKey.export({ format: 'der', type: 'pkcs1' })),
  }
  const publics = {
    'SPKI PEM': pair.publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    'bare SPKI': base64(pair.publicKey.export({ format: 'der', type: 'spki' })),
    'bare PKCS#1': base64(pair.publicKey.export({ format: 'der', type: 'pkcs1' })),
  }

  test.each(Object.entries(privates))('parses a private key as %s', (_form, text) => {
    expect(parsePrivateKey(text)?.equals(pair.privateKey)).toBe(true)
    expect(parsePrivateKey(text.replaceAll('\n', '\\n'))?.equals(pair.privateKey)).toBe(true)
    expect(parsePublicKey(text)).toBeUndefined()
  })

  test.each(Object.entries(publics))('parses a public key as %s', (_form, text) => {
    expect(parsePublicKey(text)?.equals(pair.publicKey)).toBe(true)
    expect(parsePrivateKey(text)).toBeUndefined()
  })

  test('rejects anything else', () => {
    const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
    const text = elliptic.export({ format: 'pem', type: 'pkcs8' }).toString()
    expect(parsePrivateKey(text)).toBeUndefined()
    for (const wrong of ['', 'hello', '-----BEGIN PRIVATE KEY-----\nAAAA\n']) {
      expect(parsePrivateKey(wrong)).toBeUndefined()
      expect(parsePublicKey(wrong)).toBeUndefined()
    }
  })
})
