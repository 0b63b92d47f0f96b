import { TLSSocket } from 'node:tls'
import { buildConnector } from 'undici'
import { createLookup, type Resolve } from '../../net/name-resolver.ts'

/** Connects, and calls back once with the socket or an error. */
export type Connect = buildConnector.connector

/** For a connection, with its name and its TLS. */
export const CONNECT_TIMEOUT_MS = 5_000

/** The receiver's certificate is not valid now. */
export class CertificateError extends Error {
  override readonly name = 'CertificateError'
}

/** When a certificate is valid, as TLS tells it: "Nov 20 09:00:00 2026 GMT". */
interface Validity {
  readonly valid_from?: string
  readonly valid_to?: string
}

/**
 * undici's way to connect, which also tells since when a certificate is not valid. It changes
 * nothing of what is accepted.
 */
export function createConnect(resolve: Resolve): Connect {
  const connect = buildConnector({
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
    lookup: createLookup(resolve),
  })
  return (target, callback) => {
    let validity: Validity = {}
    // The types leave out that it returns the socket. Without it, only the date is not known.
    const socket: unknown = connect(target, (...[error, connected]) => {
      if (error) callback(withDate(error, validity), null)
      else callback(null, connected)
    })
    if (socket instanceof TLSSocket) {
      // Before the check that this event causes, which ends the connection and forgets the peer.
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
