import { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { buildConnector } from 'undici'

type ConnectorOptions = buildConnector.BuildOptions

/** Where a connection goes. */
export interface Peer {
  /** "https://example.com:8443": what connections to it are kept under. */
  readonly origin: string
  readonly protocol: string
  readonly host: string
  /** An IPv6 address without brackets. */
  readonly hostname: string
  /** Empty for the usual one. */
  readonly port: string
}

/**
 * Connects, and calls back once with the socket or an error.
 *
 * @returns the socket that it begins with, so that it can be given up
 */
export type Connect = (
  peer: Peer,
  callback: (...outcome: [null, Socket] | [Error, null]) => void,
) => Socket | undefined

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
export function createConnector(options: ConnectorOptions): Connect {
  const connect = buildConnector(options)
  return ({ protocol, host, hostname, port }, callback) => {
    let validity: Validity = {}
    // The types leave out that it returns the socket. Without it, only the date is not known.
    const socket: unknown = connect({ protocol, host, hostname, port }, (...[error, connected]) => {
      if (error) callback(withDate(error, validity), null)
      else callback(null, connected)
    })
    if (socket instanceof TLSSocket) {
      // Before the check that this event causes, which ends the connection and forgets the peer.
      socket.prependOnceListener('secure', () => {
        validity = socket.getPeerCertificate()
      })
    }
    return socket instanceof Socket ? socket : undefined
  }
}

/** Where a URL leads to. */
export function peerOf(url: URL): Peer {
  const { origin, protocol, host, port } = url
  return { origin, protocol, host, hostname: url.hostname.replace(/^\[(.*)\]$/, '$1'), port }
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
