import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Encrypter } from '../../crypto/encryption.ts'

const PREFIX = 'whsec_'
const SECRET_BYTES = 32
const OPENED_MAX = 1_000

/** Makes a signing secret as the Standard Webhooks specification writes it: `whsec_<base64>`. */
export function newSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

/** Encrypts a secret; it opens for the same endpoint alone. */
export function encryptSecret(encrypter: Encrypter, endpointId: string, secret: string): Buffer {
  return encrypter.encrypt(secret, context(endpointId))
}

/** @returns `whsec_<base64>`; throws when no known key sealed it for this endpoint */
export function decryptSecret(encrypter: Encrypter, endpointId: string, sealed: Buffer): string {
  return encrypter.decrypt(sealed, context(endpointId))
}

/** Opens sealed secrets: the bytes that sign. Those of busy endpoints are kept open. */
export function createSecretDecrypter(
  encrypter: Encrypter,
): (endpointId: string, sealed: Buffer) => Buffer {
  const opened = new LRUCache<string, Buffer>({ max: OPENED_MAX })
  return (endpointId, sealed) => {
    const key = endpointId + sealed.toString('latin1')
    const known = opened.get(key)
    if (known) return known
    const bytes = secretBytes(decryptSecret(encrypter, endpointId, sealed))
    opened.set(key, bytes)
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
