import { createHash } from 'node:crypto'
import { equalSecrets } from '../equal-secrets.ts'

/**
 * Returns the signature of every call in either direction: SHA-512 of `clientId:clientSecret` in
 * upper-case hexadecimal. It is constant: it authenticates the caller but not the content.
 */
export function authSignature(clientId: string, clientSecret: string): string {
  return createHash('sha512').update(`${clientId}:${clientSecret}`).digest('hex').toUpperCase()
}

/** Compares a signature with the expected one, ignoring case. */
export function isAuthSignature(header: string | undefined, expected: string): boolean {
  return equalSecrets((header ?? '').trim().toUpperCase(), expected)
}
