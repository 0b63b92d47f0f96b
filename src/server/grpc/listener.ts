import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import {
  boundConnections,
  type ConnectionLimits,
  type Connections,
  LISTEN_BACKLOG,
  listenFault,
} from '../connections.ts'
import type { Tls } from '../tls.ts'
import { type ClientIdentity, identityOf } from './connections.ts'
import { parseProxyHeader } from './proxy-header.ts'

/** The time-out of a TLS handshake. */
const HANDSHAKE_MS = 10_000

const SOCKET = { noDelay: true } as const

interface GrpcListenerOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  readonly reusePort?: boolean
  readonly limits: ConnectionLimits
  readonly tls?: Tls | undefined
  /** Undefined: every connection comes from its peer. */
  readonly proxies?: Proxies | undefined
  /** How long a proxy may take to name its client, in milliseconds. */
  readonly proxyHeaderMs: number
}

/** The proxies that speak the PROXY protocol. */
export interface Proxies {
  readonly isTrusted: (address: string) => boolean
}

/**
 * Receives a connection and the client's address, with its identity if the server asks for
 * certificates.
 */
export type Accept = (socket: Socket, identity: ClientIdentity | undefined, address: string) => void

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
  const { host, port: wanted, reusePort = false, limits, tls, proxies } = options
  const { server, connections } =
    proxies === undefined
      ? openDirect(tls, limits, accept)
      : openProxied({ ...options, proxies }, accept)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(listenFault('GRPC_PORT', options, error)))
    server.listen({ host, port: wanted, reusePort, backlog: LISTEN_BACKLOG }, () => resolve())
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

interface Opened {
  readonly server: Server
  readonly connections: Connections
}

function openDirect(tls: Tls | undefined, limits: ConnectionLimits, accept: Accept): Opened {
  const take = (socket: Socket, identity?: ClientIdentity) =>
    accept(socket, identity, socket.remoteAddress ?? '')
  const server = tls ? createSecure(tls, take) : createServer(SOCKET, (socket) => take(socket))
  return { server, connections: boundConnections(server, limits) }
}

/**
 * Accepts connections of trusted proxies, which begin with a header of the PROXY protocol, and those
 * of other peers, which speak for themselves: their bytes are not searched for a header.
 */
function openProxied(
  { tls, limits, proxies, proxyHeaderMs }: GrpcListenerOptions & { readonly proxies: Proxies },
  accept: Accept,
): Opened {
  /** The clients of proxies, by the proxy's end of the connection. */
  const clients = new Map<string, string>()
  const secure =
    tls &&
    createSecure(tls, (socket, identity) => {
      const client = clients.get(peerOf(socket)) ?? socket.remoteAddress ?? ''
      accept(socket, identity, client)
    })
  const take = (socket: Socket, address: string): void => {
    if (socket.destroyed || !connections.admit(socket, address)) return
    if (secure === undefined) {
      accept(socket, undefined, address)
      return
    }
    const peer = peerOf(socket)
    clients.set(peer, address)
    socket.once('close', () => clients.delete(peer))
    secure.emit('connection', socket)
  }
  const server = createServer(SOCKET, (socket) => {
    const { remoteAddress = '' } = socket
    if (!proxies.isTrusted(remoteAddress)) take(socket, remoteAddress)
    else readProxyHeader(socket, proxyHeaderMs, (address) => take(socket, address))
  })
  const connections = boundConnections(server, limits, false)
  return { server, connections }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}

function createSecure(
  tls: Tls,
  take: (socket: Socket, identity: ClientIdentity | undefined) => void,
): Server {
  const options = { ...SOCKET, ALPNProtocols: ['h2'], handshakeTimeout: HANDSHAKE_MS }
  const server = createTlsServer({ ...tls.mutual(), ...options }, (socket) => {
    // Errors before an HTTP/2 session listens are ignored.
    socket.on('error', () => undefined)
    // Once per connection: parsing a certificate takes as long as handling a call.
    const identity = socket.authorized ? identityOf(socket.getPeerCertificate()) : undefined
    // A client without ALPN is assumed to speak HTTP/2, as without TLS.
    take(socket, identity)
  })
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  tls.onReload(() => server.setSecureContext(tls.mutual()))
  return server
}

/**
 * Reads the header of the PROXY protocol from a new connection, and leaves what follows on the
 * socket. A connection whose header is wrong, or not complete in time, is closed.
 *
 * @param done called with the client's address, at most once, and not for a closed connection
 */
function readProxyHeader(socket: Socket, timeoutMs: number, done: (address: string) => void): void {
  const own = socket.remoteAddress ?? ''
  let received: Buffer = Buffer.alloc(0)
  const timer = setTimeout(() => socket.destroy(), timeoutMs)
  const stop = (): void => {
    clearTimeout(timer)
    socket.off('readable', read)
    socket.off('close', stop)
  }
  // Bounded: a header that is too long is invalid, and a read returns at most one buffer of Node.
  const read = (): void => {
    const chunk: Buffer | null = socket.read()
    if (chunk === null) return
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    const header = parseProxyHeader(received)
    if (header.state === 'incomplete') return
    stop()
    if (header.state === 'invalid') {
      socket.destroy()
      return
    }
    const rest = received.subarray(header.length)
    if (rest.length > 0) socket.unshift(rest)
    done(header.address ?? own)
  }
  // Errors before an HTTP/2 or TLS session listens are ignored.
  socket.on('error', () => undefined)
  socket.on('readable', read)
  socket.on('close', stop)
}
