import { describe, expect, test } from 'vitest'
import { createEncrypter, type Encrypter } from '../../../src/crypto/encryption.ts'
import {
  createSecretDecrypter,
  decryptSecret,
  encryptSecret,
  newSecret,
  secretBytes,
} from '../../../src/webhooks/sender/sign.ts'

const key = { endpointId: 'ep_1', number: 1 }
const createTestEncrypter = () => createEncrypter(Buffer.alloc(32, 1))

describe('a signing secret', () => {
  test('is decrypted for its own endpoint and number alone', () => {
    const encrypter = createTestEncrypter()
    const secret = newSecret()
    const encrypted = encryptSecret(encrypter, key, secret)
    expect(decryptSecret(encrypter, key, encrypted)).toBe(secret)
    expect(() => decryptSecret(encrypter, { ...key, number: 2 }, encrypted)).toThrow()
    expect(() => decryptSecret(encrypter, { ...key, endpointId: 'ep_2' }, encrypted)).toThrow()
  })

  test('signs with the bytes after its prefix', () => {
    expect(secretBytes('whsec_AAEC')).toEqual(Buffer.of(0, 1, 2))
  })

  test('is decrypted once for all the requests that it signs', () => {
    const encrypter = createTestEncrypter()
    let decryptions = 0
    const counting: Encrypter = {
      ...encrypter,
      decrypt: (...args) => {
        decryptions += 1
        return encrypter.decrypt(...args)
      },
    }
    const decrypt = createSecretDecrypter(counting)
    const [first, second] = [newSecret(), newSecret()]
    const encrypted = encryptSecret(encrypter, key, first)
    for (let each = 0; each < 3; each++) {
      expect(decrypt(key, encrypted)).toBe(first)
    }
    expect(decryptions).toBe(1)
    // Another secret with the same number, as after a restore.
    expect(decrypt(key, encryptSecret(encrypter, key, second))).toBe(second)
    expect(() => decrypt({ ...key, endpointId: 'ep_2' }, encrypted)).toThrow()
  })
})
