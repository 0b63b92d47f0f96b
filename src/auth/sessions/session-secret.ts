import { createHmac, randomBytes } from 'node:crypto'
import { hashToken } from '../tokens/token-secret.ts'

/** What begins a secret, and the kind of the id in it. */
const PREFIXES = { ses: 'is', sic: 'ic', plk: 'pl' } as const

/** The kinds of secrets: of sessions, one-time sign-in codes and portal links. */
export type SecretKind = keyof typeof PREFIXES

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
