import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** A new secret key: what the business gets, and what is kept of it. */
export interface NewSecretKey {
  readonly secret: string
  /** What the secret begins with, to recognise it by. */
  readonly prefix: string
  /** SHA-256 of the secret, 32 bytes. */
  readonly secretHash: Buffer
}

const FORM = /^sk_(?:live|test)_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/

/**
 * @param keyId the key's identifier, `key_…`: its unique part is inside the secret
 * @param live whether it opens live mode; its beginning says so
 */
export function newSecretKey(keyId: string, live: boolean): NewSecretKey {
  const mode = live ? 'sk_live_' : 'sk_test_'
  const unique = keyId.slice('key_'.length)
  const secret = `${mode}${unique}_${randomBytes(32).toString('base64url')}`
  const prefix = secret.slice(0, mode.length + 10)
  return { secret, prefix, secretHash: hashSecret(secret) }
}

/** SHA-256: enough for 256 random bits. */
function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

/** @returns the identifier of the key that the secret claims to be of; undefined when malformed */
export function keyIdOf(secret: string): string | undefined {
  const unique = FORM.exec(secret)?.[1]
  return unique === undefined ? undefined : `key_${unique}`
}

/** Compares in constant time. */
export function matchesHash(secret: string, secretHash: Uint8Array): boolean {
  return timingSafeEqual(hashSecret(secret), secretHash)
}
