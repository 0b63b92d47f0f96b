import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of one connection that may wait for earlier responses. */
const WAITING_MAX = 8

/**
 * Bounds pipelined requests of a connection (RFC 9112, section 9.3.2). Node handles every request of a
 * packet and keeps all responses for a client that does not read them: a few thousand bytes would
 * pin many megabytes. Real clients pipeline only a few requests.
 *
 * @returns whether to serve a request; if not, its connection is closed
 */
export function createPipelineBound() {
  const waiting = new WeakMap<Socket, number>()
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    // Only a response that waits for an earlier one has no socket yet.
    if (response.socket !== null) return true
    const { socket } = request
    const count = (waiting.get(socket) ?? 0) + 1
    if (count > WAITING_MAX || socket.destroyed) {
      // The remaining requests of the packet arrive here too.
      socket.destroy()
      return false
    }
    waiting.set(socket, count)
    response.once('close', () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1))
    return true
  }
}
