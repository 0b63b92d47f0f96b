import type { Server, Socket } from 'node:net'
import type { Logger } from 'pino'
import { ConfigError } from '../config/config.ts'
import { addressGroup } from '../core/addresses.ts'
import type { Tls } from './tls.ts'

/**
 * How many connections the kernel holds until a busy process accepts them; `net.core.somaxconn` (4096 since
 * Linux 5.4) bounds it. The kernel drops or resets connections beyond it. Node's default is 511.
 */
export const LISTEN_BACKLOG = 4_096

/** Bounds of a server's connections. */
export interface ConnectionLimits {
  readonly connectionsMax: number
  /** The most connections from one IPv4 address, or from one /64 network of IPv6. */
  readonly connectionsPerAddressMax: number
}

/** The options of a server of any protocol. */
export interface ServerOptions {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  /** Whether other processes listen on the same port. */
  readonly reusePort?: boolean
  readonly requestIds: () => string
  readonly log: Logger
  readonly limits: ConnectionLimits
  /** Undefined: no TLS. */
  readonly tls?: Tls | undefined
}

/** The connections of a server. */
export interface Connections {
  count(): number
  /**
   * Counts a connection for an address, and closes it if the address has too many.
   *
   * @returns whether the connection stays open
   */
  admit(socket: Socket, address: string): boolean
  /** Closes all connections at once, even if they never sent a request. */
  destroyAll(): void
}

/**
 * Bounds the connections of a server, in total and per address, so that one caller cannot use all of
 * them. A connection over a bound is closed before a byte of it is read.
 *
 * @param addressKnown whether the peer of a connection is the client; otherwise the server calls `admit` once it knows
 * the client's address
 */
export function boundConnections(
  server: Server,
  limits: ConnectionLimits,
  addressKnown = true,
): Connections {
  server.maxConnections = limits.connectionsMax
  const perAddress = new Map<string, number>()
  const open = new Set<Socket>()
  const admit = (socket: Socket, address: string): boolean => {
    // A caller with one IPv6 address usually controls its whole /64.
    const network = addressGroup(address)
    const count = (perAddress.get(network) ?? 0) + 1
    if (count > limits.connectionsPerAddressMax) {
      socket.destroy()
      return false
    }
    perAddress.set(network, count)
    socket.once('close', () => {
      const left = (perAddress.get(network) ?? 1) - 1
      if (left === 0) perAddress.delete(network)
      else perAddress.set(network, left)
    })
    return true
  }
  server.prependListener('connection', (socket: Socket) => {
    if (addressKnown && !admit(socket, socket.remoteAddress ?? '')) return
    open.add(socket)
    socket.once('close', () => void open.delete(socket))
  })
  return {
    count: () => open.size,
    admit,
    destroyAll: () => {
      for (const socket of open) socket.destroy()
    },
  }
}

/** The error of a server that cannot listen at an address; it names the setting to change. */
export function listenFault(
  setting: 'HTTP_PORT' | 'GRPC_PORT' | 'OPS_PORT',
  { host, port }: { readonly host: string; readonly port: number },
  cause: unknown,
): ConfigError {
  const { code, message } = cause as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new ConfigError([
      `${setting} ${port} is in use: choose another port, or stop what listens there`,
    ])
  }
  if (code === 'EACCES') {
    return new ConfigError([`${setting} ${port} needs root: choose 1024 or more`])
  }
  return new ConfigError([`cannot listen at HOST ${host}: ${message}`])
}
