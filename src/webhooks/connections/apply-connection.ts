import { invalidFields } from '../../core/errors.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Endpoint } from '../endpoints/endpoint.entity.ts'
import { factsOf } from './client-certificate.ts'
import {
  type Connection,
  type ConnectionChange,
  changedConnection,
  decryptConnection,
  encryptConnection,
} from './connection.ts'
import { combinedFaults } from './connection-faults.ts'

/**
 * Changes the connection of a locked endpoint, whose URL is already the new one.
 *
 * @returns the connection after the change
 * @throws Fault validation_failed
 */
export function applyConnection(
  encrypter: Encrypter,
  endpoint: Endpoint,
  change: ConnectionChange,
): Connection | undefined {
  const current = connectionOf(encrypter, endpoint)
  const { origin } = new URL(endpoint.url)
  const next = changedConnection(current, change, origin)
  const faults = combinedFaults(current, change, next)
  if (faults.length > 0) throw invalidFields(faults)
  const isChanged =
    change.headers !== undefined ||
    change.authentication !== undefined ||
    change.certificate !== undefined ||
    current?.origin !== next?.origin
  if (!isChanged) return current
  endpoint.connectionVersion += 1
  endpoint.connectionEncrypted = next ? encryptConnection(encrypter, endpoint.id, next) : null
  endpoint.certificateExpiresAt = next?.certificate ? factsOf(next.certificate).expiresAt : null
  return next
}

/** The connection of an endpoint; undefined if it has none. */
export function connectionOf(
  encrypter: Encrypter,
  { id, connectionEncrypted }: Pick<Endpoint, 'id' | 'connectionEncrypted'>,
): Connection | undefined {
  return connectionEncrypted ? decryptConnection(encrypter, id, connectionEncrypted) : undefined
}

/** What the audit log states about a change: names, and never a secret. */
export function connectionDetails({
  headers,
  authentication,
  certificate,
}: ConnectionChange): Readonly<Record<string, unknown>> {
  return {
    ...(headers && { headers: headers.map(({ name }) => name) }),
    ...(authentication !== undefined && { authentication: authentication?.method ?? 'none' }),
    ...(certificate !== undefined && {
      certificate: certificate ? factsOf(certificate).fingerprint : 'none',
    }),
  }
}
