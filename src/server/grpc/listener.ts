import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { boundConnections, type ConnectionLimits } from '../connections.ts'
import { listenFault } from '../listen-fault.ts'
import type { Tls } from '../tls.ts'
import { type ClientIdentity, identityOf } from './client-certificate.ts'

/** The time-out of a TLS handshake. */
const HANDSHAKE_MS = 10_000

const SOCKET = { noDelay: true } as const

interface GrpcListenerOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  readonly limits: ConnectionLimits
  readonly tls?: Tls | undefined
}

/** Receives a connection, with the client's identity if the server asks for certificates. */
export type Accept = (socket: Socket, identity: ClientIdentity | undefined) => void

export interface GrpcListener {
  readonly port: number
  connections(): number
  /** Accepts no new connections. Resolves when none is left. */
  stop(): Promise<void>
  /** Closes those that are left. */
  cut(): void
}

/**
 * Accepts the connections of the gRPC server, within bounds, and after the TLS handshake if TLS is on.
 * A reload of the certificates does not affect open connections.
 *
 * @throws ConfigError when the server cannot listen at the address
 */
export async function listen(options: GrpcListenerOptions, accept: Accept): Promise<GrpcListener> {
  const { host, limits, tls } = options
  const server = tls
    ? createSecure(tls, accept)
    : createServer(SOCKET, (socket) => accept(socket, undefined))
  const connections = boundConnections(server, limits)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(listenFault('GRPC_PORT', options, error)))
    server.listen({ host, port: options.port }, () => resolve())
  })
  // An error of accept, such as too few file descriptors, must not affect other connections.
  server.on('error', () => undefined)
  const { port } = server.address() as AddressInfo
  return {
    port,
    connections: connections.count,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
    cut: () => connections.destroyAll(),
  }
}

function createSecure(tls: Tls, accept: Accept): Server {
  const options = { ...SOCKET, ALPNProtocols: ['h2'], handshakeTimeout: HANDSHAKE_MS }
  const server = createTlsServer({ ...tls.mutual(), ...options }, (socket) => {
    // Errors before an HTTP/2 session listens are ignored.
    socket.on('error', () => undefined)
    // Once per connection: parsing a certificate takes as long as handling a call.
    const identity = socket.authorized ? identityOf(socket.getPeerCertificate()) : undefined
    // A client without ALPN is assumed to speak HTTP/2, as without TLS.
    accept(socket, identity)
  })
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  tls.onReload(() => server.setSecureContext(tls.mutual()))
  return server
}
