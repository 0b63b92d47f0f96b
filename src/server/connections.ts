import type { Server, Socket } from 'node:net'
import { addressGroup } from '../auth/rate-limits/address-group.ts'

/** Bounds of a server's connections. */
export interface ConnectionLimits {
  readonly connectionsMax: number
  /** From one IPv4 address, or one /64 network of IPv6. */
  readonly connectionsPerAddressMax: number
}

/** The connections of a server. */
export interface Connections {
  count(): number
  /** Closes all of them at once, also those that never sent a request. */
  destroyAll(): void
}

/**
 * Bounds the connections of a server, in total and per address, so that one caller cannot use all of
 * them. A connection over a bound is closed before a byte of it is read.
 */
export function boundConnections(server: Server, limits: ConnectionLimits): Connections {
  // A full worker closes a connection that node:cluster hands to it. Otherwise the connection would be
  // handed back and out again without end. (`dropMaxConnection` is newer than its types.)
  Object.assign(server, { maxConnections: limits.connectionsMax, dropMaxConnection: true })
  const perAddress = new Map<string, number>()
  const open = new Set<Socket>()
  server.prependListener('connection', (socket: Socket) => {
    // A caller with one IPv6 address usually controls its whole /64.
    const network = addressGroup(socket.remoteAddress ?? '')
    const count = (perAddress.get(network) ?? 0) + 1
    if (count > limits.connectionsPerAddressMax) {
      socket.destroy()
      return
    }
    perAddress.set(network, count)
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      const left = (perAddress.get(network) ?? 1) - 1
      if (left === 0) perAddress.delete(network)
      else perAddress.set(network, left)
    })
  })
  return {
    count: () => open.size,
    destroyAll: () => {
      for (const socket of open) socket.destroy()
    },
  }
}
