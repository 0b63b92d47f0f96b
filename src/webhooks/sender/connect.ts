import { TLSSocket } from 'node:tls'
import { buildConnector } from 'undici'
import { createLookup, type Resolve } from '../../net/name-resolver.ts'
import type { ClientCertificate } from '../connections/connection.ts'
import type { AddressGuard } from './address-guard.ts'

/** Connects, and calls back once with the socket or an error. */
export type Connect = buildConnector.connector

/** For a connection, including name resolution and TLS. */
export const CONNECT_TIMEOUT_MS = 5_000

/** The receiver's certificate is not valid now. */
export class CertificateError extends Error {
  override readonly name = 'CertificateError'
}

/** A certificate's validity in the format of Node's TLS: "Nov 20 09:00:00 2026 GMT". */
interface Validity {
  readonly valid_from?: string
  readonly valid_to?: string
}

/**
 * undici's connector, whose errors also say since when a certificate is not valid. It does not
 * change which certificates are accepted.
 *
 * @param certificate presented if the receiver asks for one
 */
export function createConnect(resolve: Resolve, certificate?: ClientCertificate): Connect {
  const connect = buildConnector({
    ...certificate,
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
    lookup: createLookup(resolve),
  })
  return (target, callback) => {
    let validity: Validity = {}
    // It returns the socket, which its types omit. Without it, only the date is unknown.
    const socket: unknown = connect(target, (...[error, connected]) => {
      if (error) callback(withDate(error, validity), null)
      else callback(null, connected)
    })
    if (socket instanceof TLSSocket) {
      // Before the check at this event, which closes the connection and drops the certificate.
      socket.prependOnceListener('secure', () => {
        validity = socket.getPeerCertificate()
      })
    }
  }
}

function withDate(error: NodeJS.ErrnoException, { valid_from, valid_to }: Validity): Error {
  if (error.code === 'CERT_HAS_EXPIRED' && isDate(valid_to) && Date.parse(valid_to) < Date.now()) {
    return new CertificateError(`TLS certificate expired on ${dayOf(valid_to)}`, { cause: error })
  }
  if (error.code === 'CERT_NOT_YET_VALID' && isDate(valid_from)) {
    const text = `TLS certificate not valid before ${dayOf(valid_from)}`
    return new CertificateError(text, { cause: error })
  }
  return error
}

function isDate(text: string | undefined): text is string {
  return text !== undefined && !Number.isNaN(Date.parse(text))
}

function dayOf(text: string): string {
  return new Date(text).toISOString().slice(0, 10)
}

/** The name resolves to an address to which no webhook may be sent. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/**
 * Resolves a name only if every one of its addresses is allowed. The connection goes to one of the
 * checked addresses, so a name cannot resolve differently for the check and for the connection.
 *
 * It is not called for a host that is already an address: see `urlRefusal`.
 */
export function createGuardedResolve(guard: AddressGuard, resolve: Resolve): Resolve {
  return async (hostname) => {
    const addresses = await resolve(hostname)
    for (const { address } of addresses) {
      const refusal = guard.refusal(address)
      if (refusal) throw new RefusedError(`refused: resolves to ${refusal}`)
    }
    if (addresses.length === 0) throw new RefusedError('refused: resolves to no address')
    return addresses
  }
}
