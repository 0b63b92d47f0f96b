import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { childProcessMain } from '../child-process-main.ts'

/** The URL it listens on. */
export interface ReceiverReady {
  readonly port: number
}

/** Waits for this many more requests. */
export interface ReceiverCommand {
  readonly requests: number
}

/** The rate from the first request to the last. */
export interface ReceiverResult {
  readonly perSecond: number
}

// Responds to every POST with 204 and counts it.
childProcessMain<undefined, ReceiverReady, ReceiverCommand, ReceiverResult>(async () => {
  let onRequest = (): void => undefined
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      response.writeHead(204).end()
      onRequest()
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    ready: { port: (server.address() as AddressInfo).port },
    run: ({ requests }) =>
      new Promise((resolve) => {
        let first = 0
        let received = 0
        onRequest = () => {
          received += 1
          if (received === 1) first = performance.now()
          if (received < requests) return
          onRequest = () => undefined
          resolve({ perSecond: ((requests - 1) / (performance.now() - first)) * 1000 })
        }
      }),
  }
})
