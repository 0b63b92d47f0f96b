import type { StreamRequest, UnaryRequest } from '@connectrpc/connect'
import type { MethodPolicy } from '../../auth/method-policy.ts'
import { authorizationOf } from '../rpc/call-context.ts'

/** Returns the id that is readable in a credential of a kind; undefined if it is malformed. */
export type CredentialIdOf = (
  kind: MethodPolicy['credential'],
  credential: string,
) => string | undefined

/** @returns the credential of an Authorization header; undefined if it is not a bearer's */
export function bearer(header: string | null): string | undefined {
  if (header === null || header.length > 512) return undefined
  return /^Bearer +(\S+)$/i.exec(header)?.[1]
}

/** The credential of a request, or whatever else its Authorization header says. */
export function credentialOf(request: UnaryRequest | StreamRequest): string | undefined {
  const header = authorizationOf(request)
  return header === null ? undefined : (bearer(header) ?? header)
}
