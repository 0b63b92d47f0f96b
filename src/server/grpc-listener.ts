import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { type ClientIdentity, identityOf } from './client-certificate.ts'
import { boundConnections, type ConnectionLimits } from './connections.ts'
import type { Tls } from './tls.ts'

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

/** The URI that the client at `address:port` is known by; undefined: by none that is valid now. */
export type ClientUri = (peer: string) => string | undefined

export interface GrpcListener {
  readonly port: number
  readonly clientUri: ClientUri
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
 * @throws Error when the address cannot be listened at
 */
export async function listen(
  options: GrpcListenerOptions,
  accept: (socket: Socket) => void,
): Promise<GrpcListener> {
  const { host, limits, tls } = options
  // Read once a connection: a certificate takes as long to read as a call does to be answered.
  const clients = new Map<string, ClientIdentity>()
  const server = tls ? createSecure(tls, clients, accept) : createServer(SOCKET, accept)
  const connections = boundConnections(server, limits)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      const address = `${host.includes(':') ? `[${host}]` : host}:${options.port}`
      reject(new Error(`gRPC cannot listen at ${address}`, { cause }))
    })
    server.listen({ host, port: options.port }, () => resolve())
  })
  // A connection that cannot be accepted, for want of descriptors say, harms no other.
  server.on('error', () => undefined)
  const { port } = server.address() as AddressInfo
  return {
    port,
    clientUri: (peer) => {
      const identity = clients.get(peer)
      return identity && identity.expiresMs > Date.now() ? identity.uri : undefined
    },
    connections: connections.count,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
    cut: () => connections.destroyAll(),
  }
}

function createSecure(
  tls: Tls,
  clients: Map<string, ClientIdentity>,
  accept: (socket: Socket) => void,
): Server {
  const options = { ...SOCKET, ALPNProtocols: ['h2'], handshakeTimeout: HANDSHAKE_MS }
  const server = createTlsServer({ ...tls.mutual(), ...options }, (socket) => {
    // What fails before a session of HTTP/2 listens concerns nobody.
    socket.on('error', () => undefined)
    const identity = socket.authorized ? identityOf(socket.getPeerCertificate()) : undefined
    if (identity !== undefined) {
      // As grpc-js names the peer of a call.
      const peer = `${socket.remoteAddress}:${socket.remotePort}`
      clients.set(peer, identity)
      socket.once('close', () => clients.delete(peer))
    }
    // A client that asks for nothing by ALPN is taken to know what it talks to, as by plain text.
    accept(socket)
  })
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  tls.onReload(() => server.setSecureContext(tls.mutual()))
  return server
}
