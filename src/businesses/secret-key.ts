import { randomBytes, timingSafeEqual } from 'node:crypto'
import { hashSecret } from '../auth/token-secret.ts'

/** The secret of a new key, and the parts of it that are stored. */
interface NewSecretKey {
  readonly secret: string
  /** The first characters of the secret, by which users recognize the key. */
  readonly prefix: string
  /** SHA-256 of the secret, 32 bytes. */
  readonly secretHash: Buffer
}

const PATTERN = /^sk_(?:live|test)_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/

/**
 * @param keyId the key's id, `key_…`; the secret contains its unique part
 * @param live whether the key is for live mode; its prefix names the mode
 */
export function newSecretKey(keyId: string, live: boolean): NewSecretKey {
  const mode = live ? 'sk_live_' : 'sk_test_'
  const unique = keyId.slice('key_'.length)
  const secret = `${mode}${unique}_${randomBytes(32).toString('base64url')}`
  const prefix = secret.slice(0, mode.length + 10)
  return { secret, prefix, secretHash: hashSecret(secret) }
}

/** The form of a key that another provider made: a bearer token (RFC 6750) that is long enough to be random. */
const FOREIGN = /^[A-Za-z0-9._~+/-]{24,256}={0,2}$/

/** Whether a text may be imported as a key. A text in the form of our own keys may not, because it names one of them. */
export function isForeignKey(secret: string): boolean {
  return FOREIGN.test(secret) && keyIdOf(secret) === undefined
}

/** The first characters of an imported text, by which users recognize the key. */
export function foreignPrefix(secret: string): string {
  return secret.slice(0, 10)
}

/** @returns the id of the key that the secret claims to belong to; undefined if malformed */
export function keyIdOf(secret: string): string | undefined {
  const unique = PATTERN.exec(secret)?.[1]
  return unique === undefined ? undefined : `key_${unique}`
}

/** Compares in constant time. */
export function matchesHash(secret: string, secretHash: Uint8Array): boolean {
  return timingSafeEqual(hashSecret(secret), secretHash)
}
