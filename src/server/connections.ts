import type { Server, Socket } from 'node:net'
import { addressGroup } from '../auth/rate-limits/address-group.ts'

/** How many connections a door holds. */
export interface ConnectionLimits {
  readonly connectionsMax: number
  /** Of one IPv4 address, or one /64 network of IPv6. */
  readonly connectionsPerAddressMax: number
}

/** The connections of a server. */
export interface Connections {
  count(): number
  /** Ends all of them at once, also those that never came to a request. */
  destroyAll(): void
}

/**
 * Bounds the connections of a server, in all and of one address, so that one caller cannot take
 * them all. Those over a bound are closed at once, before a byte of them is read.
 */
export function boundConnections(server: Server, limits: ConnectionLimits): Connections {
  // A worker that is full closes what it is handed. It would be handed back otherwise, and handed
  // out again, on and on. (`dropMaxConnection` is newer than its types.)
  Object.assign(server, { maxConnections: limits.connectionsMax, dropMaxConnection: true })
  const perAddress = new Map<string, number>()
  const open = new Set<Socket>()
  server.prependListener('connection', (socket: Socket) => {
    // Whoever has one IPv6 address usually has all of its /64.
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
