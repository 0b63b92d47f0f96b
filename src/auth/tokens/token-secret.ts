import { createHmac, hash, randomBytes } from 'node:crypto'

/** The secret of a new token, and the parts of it that are stored. */
export interface NewTokenSecret {
  readonly secret: string
  /** The first characters of the secret, to identify it by. */
  readonly prefix: string
  /** SHA-256 of the secret, 32 bytes. */
  readonly secretHash: Buffer
}

const TOKEN_PATTERN = /^it_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/

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
  const unique = TOKEN_PATTERN.exec(secret)?.[1]
  return unique === undefined ? undefined : `tok_${unique}`
}

/** What begins a secret, and the kind of the id in it. */
const PREFIXES = { ses: 'is', sic: 'ic', plk: 'pl' } as const

/** The kinds of secrets: of sessions, one-time sign-in codes and portal links. */
type SecretKind = keyof typeof PREFIXES

/** A new secret and what is stored of it. */
interface NewSecret {
  /** Has the id in it, so that it is found without a search by its hash. */
  readonly secret: string
  /** SHA-256, 32 bytes. */
  readonly secretHash: Buffer
}

const PATTERN = /^(is|ic|pl)_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/

/** @param id `ses_…`, `sic_…` or `plk_…` */
export function newSecret(kind: SecretKind, id: string): NewSecret {
  const unique = id.slice(kind.length + 1)
  const secret = `${PREFIXES[kind]}_${unique}_${randomBytes(32).toString('base64url')}`
  return { secret, secretHash: hashToken(secret) }
}

/** @returns the id that a secret of a kind claims to belong to; undefined if it is malformed */
export function idIn(kind: SecretKind, secret: string): string | undefined {
  const [, prefix, unique] = PATTERN.exec(secret) ?? []
  return prefix === PREFIXES[kind] ? `${kind}_${unique}` : undefined
}

/**
 * Proves that a secret was made while a token of the settings was in force. Keyed by the secret, which
 * is not stored, so that the database is no help in guessing the token.
 */
export function proofOf(secret: string, adminToken: string): Buffer {
  return createHmac('sha256', secret).update(adminToken).digest()
}
