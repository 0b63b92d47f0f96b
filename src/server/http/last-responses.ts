import type { Server, ServerResponse } from 'node:http'

/** Ends the connections of a server with the responses that they wait for. */
export interface LastResponses {
  /** From now on, a response states that its connection closes. */
  announce(): void
  /** Announces, and closes connections after responses whose head was sent before. */
  closeConnections(): void
  /** How many requests have no complete response. */
  inProgress(): number
}

/**
 * A client with a kept connection sends its next request there, unless the response states that the
 * connection closes. A connection that is closed without that may cut a request that is on its way.
 */
export function createLastResponses(server: Server): LastResponses {
  const open = new Set<ServerResponse>()
  let announced = false
  server.prependListener('request', (_request, response) => {
    if (announced) response.setHeader('connection', 'close')
    open.add(response)
    response.once('close', () => open.delete(response))
  })
  const announce = (): void => {
    announced = true
    for (const response of open) {
      if (!response.headersSent) response.setHeader('connection', 'close')
    }
  }
  return {
    announce,
    closeConnections() {
      announce()
      for (const response of open) {
        // Such as a stream's, or one that began before the announcement.
        const { socket } = response
        response.once('close', () => socket?.destroySoon())
      }
    },
    inProgress: () => open.size,
  }
}
