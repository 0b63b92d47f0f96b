import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of one connection that may wait for the answers before theirs. */
const WAITING_MAX = 8

/**
 * Bounds the requests that a connection sends ahead of their answers (RFC 9112, section 9.3.2).
 * Node reads as many as are in a packet, and holds all their answers for a client that does not
 * read them: some thousand bytes would become many million. Clients that send ahead send a few.
 *
 * @returns whether a request is to be served; when not, its connection is closed
 */
export function createPipelineBound() {
  const waiting = new WeakMap<Socket, number>()
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    // Only an answer that waits for another one has no socket yet: other requests cost nothing here.
    if (response.socket !== null) return true
    const { socket } = request
    const count = (waiting.get(socket) ?? 0) + 1
    if (count > WAITING_MAX || socket.destroyed) {
      // What else was in the packet comes here, too.
      socket.destroy()
      return false
    }
    waiting.set(socket, count)
    response.once('close', () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1))
    return true
  }
}
