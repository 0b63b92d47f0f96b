import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SERVER_FAULTS, type ServerFault } from './faults.ts'

/** A request that a fake bank got. */
export interface FakeRequest {
  readonly query: URLSearchParams
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
}

export interface FakeReply {
  readonly status: number
  /** JSON text. */
  readonly body: string
}

/** What is served at one method and path. */
export interface FakeRoute {
  /** What goes wrong this time; asked once a request. */
  readonly fault?: () => string | undefined
  /** @param fault what goes wrong, when it is nothing that any server does */
  readonly answer: (request: FakeRequest, fault: string | undefined) => FakeReply
}

export interface LoopbackServer {
  readonly url: string
  /** Cuts what is under way. */
  close(): Promise<void>
}

/** Told of what a fake bank was asked and what it told, a line for each. */
export type Observe = (line: string) => void

interface LoopbackServerOptions {
  /** 0: a free one. */
  readonly port: number
  /** By `POST /create`. */
  readonly routes: Readonly<Record<string, FakeRoute>>
  readonly observe?: Observe | undefined
}

const BODY_BYTES_MAX = 65_536
/** How long a request hangs before its connection is cut; longer than anybody waits. */
const HANG_MS = 120_000
const PAGE = '<html><body><h1>Service Unavailable</h1></body></html>'

/** An HTTP server of a fake bank, reachable from this machine alone. */
export async function startLoopbackServer(options: LoopbackServerOptions): Promise<LoopbackServer> {
  const { port, routes, observe } = options
  const server = createServer((incoming, response) => {
    response.once('close', () => {
      const answered = response.headersSent ? `${response.statusCode}` : 'no answer'
      observe?.(`${incoming.method} ${incoming.url} → ${answered}`)
    })
    serve(routes, incoming, response).catch(() => response.destroy())
  })
  server.requestTimeout = 30_000
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function serve(
  routes: LoopbackServerOptions['routes'],
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://fake')
  const body = await readBody(incoming)
  const name = `${incoming.method} ${pathname}`
  const route = Object.hasOwn(routes, name) ? routes[name] : undefined
  if (body === undefined) return send(response, 413, '{"message":"too large"}')
  if (!route) return send(response, 404, '{"message":"no such method"}')
  const fault = route.fault?.()
  const serverFault = SERVER_FAULTS.find((known) => known === fault)
  if (serverFault && !serverFault.endsWith(' after')) return fail(response, serverFault)
  const headers = incoming.headers as FakeRequest['headers']
  const request = { query: searchParams, headers, body }
  const reply = route.answer(request, serverFault ? undefined : fault)
  if (serverFault) return fail(response, serverFault)
  send(response, reply.status, reply.body)
}

async function readBody(incoming: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk)
  }
  return bytes <= BODY_BYTES_MAX ? Buffer.concat(chunks).toString('utf8') : undefined
}

function fail(response: ServerResponse, fault: ServerFault): void {
  if (fault.startsWith('cut')) {
    response.destroy()
  } else if (fault.startsWith('hang')) {
    const timer = setTimeout(() => response.destroy(), HANG_MS)
    response.once('close', () => clearTimeout(timer))
  } else {
    send(response, fault.startsWith('500') ? 500 : 200, PAGE, 'text/html')
  }
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  contentType = 'application/json',
): void {
  response.writeHead(status, { 'content-type': contentType }).end(body)
}
