import { Client } from 'undici'

/** Connections to receivers, kept open between requests. */
export interface Connections {
  /** A connection with no request under way. It connects at its first one. */
  take(origin: string): Client
  /** Its request is over, however it ended. */
  giveBack(origin: string, client: Client): void
  /** Ends what is under way. */
  destroy(): Promise<void>
}

/**
 * One undici client a connection, which has one request at a time. Its Agent would do the same at
 * more cost: for each request it looks twice for a free one among all of the origin.
 *
 * How many there are is bounded by how many requests `pacing` lets be under way.
 */
export function createConnections(options: Client.Options): Connections {
  const clients = new Set<Client>()
  /** By origin. The one used last is used next, so that those not needed time out. */
  const free = new Map<string, Client[]>()

  const drop = (client: Client): void => {
    clients.delete(client)
    // It may be destroyed already, which only the callback hears of.
    client.close(() => undefined)
  }
  const open = (origin: string): Client => {
    const client = new Client(origin, options)
    clients.add(client)
    // One that is closed while it is free is not needed any more.
    client.on('disconnect', () => {
      const others = free.get(origin)
      if (others?.includes(client) !== true) return
      if (others.length === 1) free.delete(origin)
      else others.splice(others.indexOf(client), 1)
      drop(client)
    })
    return client
  }
  return {
    take: (origin) => {
      const others = free.get(origin)
      if (others?.length === 1) free.delete(origin)
      return others?.pop() ?? open(origin)
    },
    giveBack(origin, client) {
      if (!client.stats.connected) return drop(client)
      const others = free.get(origin)
      if (others === undefined) free.set(origin, [client])
      else others.push(client)
    },
    async destroy() {
      free.clear()
      await Promise.all([...clients].map((client) => client.destroy()))
    },
  }
}
