import { createHash } from 'node:crypto'
import { equalSecrets } from '../equal-secrets.ts'

/**
 * The signature of every call in either direction: SHA-512 of `clientId:clientSecret`, hexadecimal
 * in upper case. A constant: it proves who is calling, and nothing of what is said.
 */
export function authSignature(clientId: string, clientSecret: string): string {
  return createHash('sha512').update(`${clientId}:${clientSecret}`).digest('hex').toUpperCase()
}

/** Whether a signature is that one, in either case. */
export function isAuthSignature(header: string | undefined, expected: string): boolean {
  return equalSecrets((header ?? '').trim().toUpperCase(), expected)
}
