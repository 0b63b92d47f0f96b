import { createServer, type Socket } from 'node:net'
import { afterEach } from 'vitest'
import type { Resolve } from '../../../src/core/addresses.ts'
import { createAddressGuard } from '../../../src/webhooks/sender/address-guard.ts'
import { createHttpClient } from '../../../src/webhooks/sender/http-client.ts'
import { listen } from '../../support/listen.ts'
import { startReceiver } from '../../support/receiver.ts'

export const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

/** Resources closed after each test, last first. */
export const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

export const LOOPBACK = [{ address: '127.0.0.1', family: 4 }]

interface ClientSettings {
  /** Non-public ranges that are allowed. */
  readonly cidrs?: readonly string[]
  readonly allowHttp?: boolean
  readonly resolve?: Resolve
  readonly timeoutMs?: number
  readonly proxyUrl?: string
  readonly concurrency?: number
}

/** A client that posts to URLs, each with its own endpoint. */
export function httpClient(settings: ClientSettings = {}) {
  const { cidrs = ['127.0.0.0/8'], allowHttp = true, concurrency = 10, ...options } = settings
  const made = createHttpClient({
    rules: { allowHttp, guard: createAddressGuard(cidrs) },
    timeoutMs: 15_000,
    resolve: async () => LOOPBACK,
    ...options,
  })
  closing.push(made.close)
  return {
    post: (url: string, headers: Record<string, string>, body: string | Buffer) =>
      made.post({ endpointId: url, url, concurrency }, headers, body),
    /** Posts to the URL of an endpoint. */
    postTo: (endpointId: string, url: string) =>
      made.post({ endpointId, url, concurrency }, {}, '1'),
    close: made.close,
  }
}

/** A receiver that is closed after the test. @param certificate absent: without TLS */
export async function closingReceiver(certificate?: Parameters<typeof startReceiver>[0]) {
  const started = await startReceiver(certificate)
  closing.push(started.close)
  return { ...started, port: new URL(started.url).port }
}

/** A connection that the receiver has accepted. */
interface Accepted {
  readonly socket: Socket
  /** Everything received so far. */
  text(): string
  /** Resolves once that many requests with a body of one byte have arrived. */
  requests(count: number): Promise<void>
  readonly closed: Promise<unknown>
}

/** A TCP receiver that calls the function with each connection. */
export async function receiver(onConnection: (accepted: Accepted, index: number) => void) {
  const all: Accepted[] = []
  const server = createServer((socket) => {
    let text = ''
    const checks = new Set<() => void>()
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      for (const check of checks) check()
    })
    const accepted: Accepted = {
      socket,
      text: () => text,
      requests: (count) =>
        new Promise((resolve) => {
          const check = () => {
            if (text.split(/content-length: 1\r\n\r\n./).length <= count) return
            checks.delete(check)
            resolve()
          }
          checks.add(check)
          check()
        }),
      closed: new Promise((resolve) => socket.once('close', resolve)),
    }
    all.push(accepted)
    onConnection(accepted, all.length - 1)
  })
  const port = await listen(server)
  closing.push(
    () =>
      new Promise((resolve) => {
        server.close(resolve)
        for (const { socket } of all) socket.destroy()
      }),
  )
  return { url: `http://127.0.0.1:${port}/`, port, all }
}

/** Responds to each request with the next of these, and then with OK. */
export function responding(...responses: string[]) {
  return receiver(async (accepted) => {
    for (let count = 1; ; count++) {
      await accepted.requests(count)
      accepted.socket.write(responses.shift() ?? OK)
    }
  })
}
