import { createHmac, hash, randomBytes } from 'node:crypto'

/** The prefix of a secret for each kind of id in it. */
const PREFIXES = { tok: 'it', ses: 'is', sic: 'ic', plk: 'pl' } as const

/** The kinds of secrets: of tokens, sessions, one-time sign-in codes and portal links. */
type SecretKind = keyof typeof PREFIXES

/** A new secret, and the parts of it that are stored. */
interface NewSecret {
  /** Contains the unique part of the id, so that the row is found without a search by hash. */
  readonly secret: string
  /** The first characters of the secret, to identify it by. */
  readonly prefix: string
  /** SHA-256 of the secret, 32 bytes. */
  readonly secretHash: Buffer
}

const PATTERN = /^(it|is|ic|pl)_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/

/** @param id `tok_…`, `ses_…`, `sic_…` or `plk_…` */
export function newSecret(kind: SecretKind, id: string): NewSecret {
  const unique = id.slice(kind.length + 1)
  const secret = `${PREFIXES[kind]}_${unique}_${randomBytes(32).toString('base64url')}`
  return { secret, prefix: secret.slice(0, 'it_'.length + 10), secretHash: hashSecret(secret) }
}

/** SHA-256: strong enough for 256 random bits, and cheap enough for every request. */
export function hashSecret(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}

/** @returns the id that a secret of a kind claims to belong to; undefined if it is malformed */
export function idIn(kind: SecretKind, secret: string): string | undefined {
  const [, prefix, unique] = PATTERN.exec(secret) ?? []
  return prefix === PREFIXES[kind] ? `${kind}_${unique}` : undefined
}

/**
 * Proves that a secret was created while ADMIN_TOKEN had this value. The MAC is keyed by the secret, which is not stored, so
 * the database does not help an attacker to guess the token.
 */
export function proofOf(secret: string, adminToken: string): Buffer {
  return createHmac('sha256', secret).update(adminToken).digest()
}
