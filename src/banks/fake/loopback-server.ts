import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../core/clock.ts'
import { type Faults, SERVER_FAULTS, type ServerFault } from './faults.ts'

/** A request to a fake bank. */
export interface FakeRequest {
  readonly query: URLSearchParams
  /** The headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
}

export interface FakeResponse {
  readonly status: number
  /** JSON text. */
  readonly body: string
}

/** The handler of one method and path. */
export interface FakeRoute {
  /** Returns the fault of this request; called once per request. */
  readonly fault?: () => string | undefined
  /** @param fault the fault of this request, unless it is a ServerFault */
  readonly respond: (request: FakeRequest, fault: string | undefined) => FakeResponse
}

export interface LoopbackServer {
  readonly url: string
  /** Closes all connections. */
  close(): Promise<void>
}

/** Called with a line for each request to and each notification from a fake bank. */
export type Observe = (line: string) => void

/** The options of every fake bank. */
export interface FakeBankOptions {
  /** 0 picks a free port. */
  readonly port: number
  /** The URL for notifications, on this machine. */
  readonly notify?: string
  readonly clock?: Clock
  /** Delays before the retries of a notification; default: those of the bank. */
  readonly retryDelaysMs?: readonly number[]
  readonly observe?: Observe | undefined
}

interface LoopbackServerOptions {
  /** 0 picks a free port. */
  readonly port: number
  /** The routes by method and path: `POST /create`. */
  readonly routes: Readonly<Record<string, FakeRoute>>
  readonly observe?: Observe | undefined
  /** How long each request takes, in milliseconds; absent: no time. */
  readonly delayMs?: number | undefined
}

const BODY_BYTES_MAX = 65_536
/** How long a request hangs before its connection is closed: longer than any client waits. */
const HANG_MS = 120_000
const PAGE = '<html><body><h1>Service Unavailable</h1></body></html>'

/** Starts the HTTP server of a fake bank, reachable only from this machine. */
export async function startLoopbackServer(options: LoopbackServerOptions): Promise<LoopbackServer> {
  const { port, observe } = options
  const server = createServer((incoming, response) => {
    response.once('close', () => {
      const status = response.headersSent ? `${response.statusCode}` : 'no response'
      observe?.(`${incoming.method} ${incoming.url} → ${status}`)
    })
    serve(options, incoming, response).catch(() => response.destroy())
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
  { routes, delayMs }: LoopbackServerOptions,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://fake')
  const body = await readBody(incoming)
  if (delayMs !== undefined) await sleep(delayMs)
  const name = `${incoming.method} ${pathname}`
  const route = Object.hasOwn(routes, name) ? routes[name] : undefined
  if (body === undefined) return send(response, 413, '{"message":"too large"}')
  if (!route) return send(response, 404, '{"message":"no such method"}')
  const fault = route.fault?.()
  const serverFault = SERVER_FAULTS.find((known) => known === fault)
  if (serverFault && !serverFault.endsWith(' after')) return fail(response, serverFault)
  const headers = incoming.headers as FakeRequest['headers']
  const request = { query: searchParams, headers, body }
  const result = route.respond(request, serverFault ? undefined : fault)
  if (serverFault) return fail(response, serverFault)
  send(response, result.status, result.body)
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

/** The operations of a fake bank's API: counts their requests, and makes some of them fail. */
export function createOperations<Operation extends string, Fault extends string>(
  operations: readonly Operation[],
) {
  const pending = new Map<Operation, Fault[]>()
  const faults: Faults<Operation, Fault> = {
    add(operation, fault, times = 1) {
      const queue = pending.get(operation) ?? []
      pending.set(operation, [...queue, ...Array<Fault>(times).fill(fault)])
    },
    clear: () => pending.clear(),
  }
  const requests = Object.fromEntries(operations.map((name) => [name, 0])) as Record<
    Operation,
    number
  >
  return {
    faults,
    /** Requests per operation, whatever their results. */
    requests: requests as Readonly<Record<Operation, number>>,
    /** @param respond gets the request's fault, unless it is one of any server */
    route(
      operation: Operation,
      respond: (
        request: FakeRequest,
        fault: Exclude<Fault, ServerFault> | undefined,
      ) => FakeResponse,
    ): FakeRoute {
      return {
        fault() {
          requests[operation] += 1
          return pending.get(operation)?.shift()
        },
        respond: respond as FakeRoute['respond'],
      }
    },
  }
}
