import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { boundConnections, type ConnectionLimits } from '../connections.ts'
import { listenFault } from '../listen-fault.ts'
import type { Tls } from '../tls.ts'
import { type ClientIdentity, identityOf } from './client-certificate.ts'

/** How long a client has for the handshake of TLS. */
const HANDSHAKE_MS = 10_000

const SOCKET = { noDelay: true } as const

interface GrpcListenerOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  readonly limits: ConnectionLimits
  readonly tls?: Tls | undefined
}

/** Takes a connection, with who its client is, where that had to show a certificate. */
export type Accept = (socket: Socket, identity: ClientIdentity | undefined) => void

export interface GrpcListener {
  readonly port: number
  connections(): number
  /** Takes no new connections. Resolves when there are none left. */
  stop(): Promise<void>
  /** Ends those that are left. */
  cut(): void
}

/**
 * Accepts the connections of the gRPC door, within bounds, and after the handshake where there is
 * TLS. Connections stay as they are when certificates are read again.
 *
 * @throws ConfigError when the address cannot be listened at
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
  // A connection that cannot be accepted, for want of descriptors say, harms no other.
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
    // What fails before a session of HTTP/2 listens concerns nobody.
    socket.on('error', () => undefined)
    // Read once a connection: a certificate takes as long to read as a call does to be answered.
    const identity = socket.authorized ? identityOf(socket.getPeerCertificate()) : undefined
    // A client that asks for nothing by ALPN is taken to know what it talks to, as by plain text.
    accept(socket, identity)
  })
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  tls.onReload(() => server.setSecureContext(tls.mutual()))
  return server
}
