import type { StreamRequest, UnaryRequest } from '@connectrpc/connect'
import type { MethodPolicy } from '../../auth/method-policy.ts'
import { authorizationOf, callContextKey } from '../rpc/call-context.ts'

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

/**
 * The credential of a request, or whatever else its Authorization header says. Without that header, the
 * session counts where a token does.
 */
export function credentialOf(
  request: UnaryRequest | StreamRequest,
  kind: MethodPolicy['credential'],
): string | undefined {
  const header = authorizationOf(request)
  if (header !== null) return bearer(header) ?? header
  return kind === 'token' ? request.contextValues.get(callContextKey)?.session : undefined
}

/** Whether a request has a credential, right or wrong, that counts for its method. */
export function hasCredential(
  request: UnaryRequest | StreamRequest,
  kind: MethodPolicy['credential'],
): boolean {
  if (authorizationOf(request) !== null) return true
  return kind === 'token' && request.contextValues.get(callContextKey)?.session !== undefined
}
