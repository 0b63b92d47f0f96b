import type { Server, Socket } from 'node:net'
import { ConfigError } from '../config/config.ts'
import { addressGroup } from '../core/addresses.ts'

/**
 * Connections that the kernel holds until a busy process accepts them; it holds at most
 * `net.core.somaxconn`, which is 4096 since Linux 5.4. Beyond them it drops or resets new ones. Node's
 * default is 511.
 */
export const LISTEN_BACKLOG = 4_096

/** Bounds of a server's connections. */
export interface ConnectionLimits {
  readonly connectionsMax: number
  /** From one IPv4 address, or one /64 network of IPv6. */
  readonly connectionsPerAddressMax: number
}

/** The connections of a server. */
export interface Connections {
  count(): number
  /**
   * Counts a connection for an address; closes it if the address has too many.
   *
   * @returns whether it may stay
   */
  admit(socket: Socket, address: string): boolean
  /** Closes all of them at once, even if they never sent a request. */
  destroyAll(): void
}

/**
 * Bounds the connections of a server, in total and per address, so that one caller cannot use all of
 * them. A connection over a bound is closed before a byte of it is read.
 *
 * @param addressKnown whether a connection comes from its peer; otherwise the server calls `admit` once
 * it knows where from
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

/** Names the setting to change when a server cannot listen at an address. */
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
