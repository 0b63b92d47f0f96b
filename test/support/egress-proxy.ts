import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { listen } from './listen.ts'

/** A local HTTP proxy for CONNECT that resolves every name to this machine. */
export interface EgressProxy {
  readonly port: number
  /** The requested targets: "example.com:443". */
  readonly targets: readonly string[]
  /** The Proxy-Authorization header of each request. */
  readonly authorizations: readonly (string | undefined)[]
  close(): Promise<void>
}

/** @param refusal the response instead of a connection to a target; `hangs`: no response */
export async function startEgressProxy(
  refusal: (target: string) => number | 'hangs' | undefined = () => undefined,
): Promise<EgressProxy> {
  const targets: string[] = []
  const authorizations: (string | undefined)[] = []
  const sockets = new Set<Socket>()
  const server = createServer()
  server.on('connection', (socket) => sockets.add(socket))
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    const target = `${request.url}`
    targets.push(target)
    authorizations.push(request.headers['proxy-authorization'])
    socket.on('error', () => undefined)
    const status = refusal(target)
    if (status === 'hangs') return
    if (status !== undefined) {
      socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`)
      return
    }
    const peer = connect(Number(target.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      peer.pipe(socket).pipe(peer)
    })
    sockets.add(peer)
    peer.on('error', () => socket.destroy())
  })
  const port = await listen(server)
  return {
    port,
    targets,
    authorizations,
    close: async () => {
      server.close()
      for (const socket of sockets) socket.destroy()
      if (server.listening) await once(server, 'close')
    },
  }
}
