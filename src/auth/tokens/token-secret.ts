import { hash, randomBytes } from 'node:crypto'

/** The secret of a new token: what its holder gets, and what is kept of it. */
export interface NewTokenSecret {
  readonly secret: string
  /** What the secret begins with, to recognise it by. */
  readonly prefix: string
  /** SHA-256 of the secret, 32 bytes. */
  readonly secretHash: Buffer
}

const FORM = /^it_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/

/** @param tokenId the token's identifier, `tok_…`: its unique part is inside the secret */
export function newTokenSecret(tokenId: string): NewTokenSecret {
  const unique = tokenId.slice('tok_'.length)
  const secret = `it_${unique}_${randomBytes(32).toString('base64url')}`
  return { secret, prefix: secret.slice(0, 'it_'.length + 10), secretHash: hashToken(secret) }
}

/** SHA-256: enough for 256 random bits, and cheap enough for every request. */
export function hashToken(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}

/** @returns the identifier of the token that the secret claims to be of; undefined: malformed */
export function tokenIdOf(secret: string): string | undefined {
  const unique = FORM.exec(secret)?.[1]
  return unique === undefined ? undefined : `tok_${unique}`
}
