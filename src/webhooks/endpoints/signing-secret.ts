import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Encrypter } from '../../crypto/encryption.ts'

const PREFIX = 'whsec_'
const SECRET_BYTES = 32
const DECRYPTED_MAX = 1_000

/** Creates a signing secret in the format of Standard Webhooks: `whsec_<base64>`. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

/** Encrypts a secret; it can be decrypted for the same endpoint only. */
export function encryptSecret(encrypter: Encrypter, endpointId: string, secret: string): Buffer {
  return encrypter.encrypt(secret, context(endpointId))
}

/** @returns `whsec_<base64>`; throws if no known key encrypted it for this endpoint */
export function decryptSecret(encrypter: Encrypter, endpointId: string, encrypted: Buffer): string {
  return encrypter.decrypt(encrypted, context(endpointId))
}

/** Decrypts secrets into the bytes that sign, and caches them. */
export function createSecretDecrypter(
  encrypter: Encrypter,
): (endpointId: string, encrypted: Buffer) => Buffer {
  const decrypted = new LRUCache<string, Buffer>({ max: DECRYPTED_MAX })
  return (endpointId, encrypted) => {
    const key = endpointId + encrypted.toString('latin1')
    const known = decrypted.get(key)
    if (known) return known
    const bytes = secretBytes(decryptSecret(encrypter, endpointId, encrypted))
    decrypted.set(key, bytes)
    return bytes
  }
}

/** @param secret `whsec_<base64>` */
export function secretBytes(secret: string): Buffer {
  return Buffer.from(secret.slice(PREFIX.length), 'base64')
}

function context(endpointId: string): string {
  return `webhook endpoint ${endpointId}`
}
