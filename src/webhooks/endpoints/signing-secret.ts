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

/** Creates a text secret, for the WIAXY profile: 48 hexadecimal digits. */
export function newTextSecret(): string {
  return randomBytes(24).toString('hex')
}

/** A secret of an endpoint. Numbers count 1, 2, 3 …: a rotation adds the next. */
export interface SecretKey {
  readonly endpointId: string
  readonly number: number
}

/** Encrypts a secret; it can be decrypted for the same endpoint and number only. */
export function encryptSecret(encrypter: Encrypter, key: SecretKey, secret: string): Buffer {
  return encrypter.encrypt(secret, contextOf(key))
}

/** @returns `whsec_<base64>`, or a text; throws if no known key encrypted it as this secret */
export function decryptSecret(encrypter: Encrypter, key: SecretKey, encrypted: Buffer): string {
  return encrypter.decrypt(encrypted, contextOf(key))
}

/** Decrypts secrets, and caches them. */
export function createSecretDecrypter(
  encrypter: Encrypter,
): (key: SecretKey, encrypted: Buffer) => string {
  const decrypted = new LRUCache<string, string>({ max: DECRYPTED_MAX })
  return (key, encrypted) => {
    const cached = `${contextOf(key)} ${encrypted.toString('latin1')}`
    const known = decrypted.get(cached)
    if (known !== undefined) return known
    const secret = decryptSecret(encrypter, key, encrypted)
    decrypted.set(cached, secret)
    return secret
  }
}

/** @param secret `whsec_<base64>` */
export function secretBytes(secret: string): Buffer {
  return Buffer.from(secret.slice(PREFIX.length), 'base64')
}

function contextOf({ endpointId, number }: SecretKey): string {
  return `webhook endpoint ${endpointId} secret ${number}`
}
