import { hash, randomBytes } from 'node:crypto'

/** The secret of a new token, and the parts of it that are stored. */
export interface NewTokenSecret {
  readonly secret: string
  /** The first characters of the secret, to identify it by. */
  readonly prefix: string
  /** SHA-256 of the secret, 32 bytes. */
  readonly secretHash: Buffer
}

const PATTERN = /^it_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/

/** @param tokenId the token's id, `tok_…`; the secret contains its unique part */
export function newTokenSecret(tokenId: string): NewTokenSecret {
  const unique = tokenId.slice('tok_'.length)
  const secret = `it_${unique}_${randomBytes(32).toString('base64url')}`
  return { secret, prefix: secret.slice(0, 'it_'.length + 10), secretHash: hashToken(secret) }
}

/** SHA-256: strong enough for 256 random bits, and cheap enough for every request. */
export function hashToken(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}

/** @returns the id of the token that the secret claims to belong to; undefined if malformed */
export function tokenIdOf(secret: string): string | undefined {
  const unique = PATTERN.exec(secret)?.[1]
  return unique === undefined ? undefined : `tok_${unique}`
}
