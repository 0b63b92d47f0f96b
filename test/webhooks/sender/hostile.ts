import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { makeCertificate } from '../../support/certificate.ts'
import { listen } from '../../support/listen.ts'

/** A receiver that misbehaves until it heals. */
export interface HostileReceiver {
  readonly url: string
  /** The number of requests received. */
  readonly requests: number
  /** The number of open connections. */
  readonly open: number
  /** The ids acknowledged since it healed. */
  readonly acknowledged: ReadonlySet<string>
  /** Acknowledges from now on, and closes its open connections. */
  heal(): void
  close(): Promise<void>
}

type Misbehave = (request: IncomingMessage, response: ServerResponse) => void

const TEN_MIB = Buffer.alloc(10 * 1_024 * 1_024, 'x')

/** How receivers misbehave. */
export const HOSTILITIES = {
  'responds with 500': (_request, response) => response.writeHead(500).end('no'),
  hangs: () => undefined,
  'trickles its response': (request, response) => {
    response.socket?.write('HTTP/1.1 200 OK\r\n')
    const timer = setInterval(() => response.socket?.write('x-a: 1\r\n'), 100)
    request.socket.once('close', () => clearInterval(timer))
  },
  'responds with 10 MiB': (_request, response) => response.writeHead(500).end(TEN_MIB),
  'closes the connection': (request) => request.socket.destroy(),
} satisfies Record<string, Misbehave>

/** Redirects to an internal URL. */
export function redirectTo(url: string): Misbehave {
  return (_request, response) => response.writeHead(307, { location: url }).end()
}

export function startHostile(misbehave: Misbehave): Promise<HostileReceiver> {
  return start(misbehave, (listener) => createServer(listener), 'http')
}

/** A receiver whose certificate is untrusted and expired. */
export function startBrokenTls(): Promise<HostileReceiver> {
  const certificate = makeCertificate({ fromMs: 0, toMs: Date.UTC(2000, 0, 1) })
  return start(
    () => undefined,
    (listener) => createTlsServer(certificate, listener),
    'https',
  )
}

async function start(
  misbehave: Misbehave,
  create: (listener: Misbehave) => Server,
  scheme: string,
): Promise<HostileReceiver> {
  const sockets = new Set<Socket>()
  const acknowledged = new Set<string>()
  let requests = 0
  let healed = false
  const server = create((request, response) => {
    requests += 1
    request.resume()
    if (!healed) {
      misbehave(request, response)
      return
    }
    request.once('end', () => {
      acknowledged.add(`${request.headers['webhook-id']}`)
      response.end()
    })
  })
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => undefined)
  const port = await listen(server)
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `${scheme}://127.0.0.1:${port}/`,
    get requests() {
      return requests
    },
    get open() {
      return sockets.size
    },
    acknowledged,
    heal() {
      healed = true
      cut()
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        cut()
      }),
  }
}
