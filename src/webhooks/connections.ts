import type { Connect, Peer } from './connect.ts'
import { Connection, type ConnectionOwner, type Exchange } from './http1/connection.ts'
import { FreeConnections } from './http1/free-connections.ts'
import { NoAnswerError } from './http1/no-answer-error.ts'

/** Connections to receivers, kept open between requests. */
export interface Connections {
  /** Sends a request, on a connection that it has for itself. */
  send(peer: Peer, exchange: Exchange): void
  /** Ends what is under way. Nothing is sent any more. */
  destroy(): Promise<void>
}

/** What the receiver did with a connection that was free for less than this is known. */
const JUST_FREED_MS = 1

/** How many have a request is bounded by how many requests `pacing` lets be under way. */
export function createConnections(connect: Connect): Connections {
  const all = new Set<Connection>()
  const free = new FreeConnections()
  let destroyed: Error | undefined

  const owner: ConnectionOwner = {
    freed: (connection) => free.put(connection),
    closed(connection) {
      all.delete(connection)
      free.remove(connection)
    },
  }
  const open = (peer: Peer, exchange: Exchange): void => {
    all.add(new Connection(peer, exchange, connect, owner))
  }
  const sendOn = (connection: Connection, peer: Peer, exchange: Exchange): void => {
    if (exchange.isOver) {
      if (!connection.isClosed) free.put(connection)
    } else if (destroyed) exchange.ended(undefined, destroyed)
    else if (connection.isClosed) open(peer, exchange)
    else connection.send(exchange)
  }
  return {
    send(peer, exchange) {
      if (destroyed) return exchange.ended(undefined, destroyed)
      const nowMs = performance.now()
      const connection = free.take(peer.origin, nowMs)
      if (connection === undefined) return open(peer, exchange)
      if (nowMs - connection.freeSinceMs < JUST_FREED_MS) return sendOn(connection, peer, exchange)
      // What waits to be read is heard of first, in a whole turn of the event loop: that the receiver
      // has closed the connection, or sent what would be taken for the answer.
      setImmediate(() => setImmediate(() => sendOn(connection, peer, exchange)))
    },
    async destroy() {
      const error = new NoAnswerError('the service stopped')
      destroyed = error
      await Promise.all([...all].map((connection) => connection.destroy(error)))
    },
  }
}
