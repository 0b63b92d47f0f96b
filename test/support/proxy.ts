import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** Which way is silent. The other one works. */
export type Direction = 'to the server' | 'from the server' | 'both'

/** A TCP proxy to a real server that can be cut, blocked and frozen. */
export interface TcpProxy {
  /** `host:port` */
  readonly address: string
  /** `http://host:port` */
  readonly url: string
  /** The URL of the server, through the proxy. */
  readonly through: string
  /** The number of bytes from the server. */
  bytes(): number
  /** The number of connections so far. */
  accepted(): number
  /** The number of open connections. */
  connections(): number
  /** Drops every connection, as a network failure does. Accepts new ones. */
  cut(): void
  /** Drops every connection, and refuses new ones. */
  block(): Promise<void>
  /** Accepts connections again, at the same port. */
  unblock(): Promise<void>
  /** Stops forwarding on the current connections, without closing them. */
  freeze(): void
  /**
   * Drops what travels in this direction, and whatever new connections send, without a word to either side: as
   * a host that vanished, or a firewall that has forgotten its connections.
   */
  silence(direction?: Direction): void
  /** Forwards new connections again. Those of the silence stay silent. */
  endSilence(): void
  /** The number of connections of a silence that the client still holds. */
  lost(): number
}

/** For a proxy that outlives a test: a hook blocks it at the end. */
export const byHand = () => undefined

/**
 * @param target `host:port` or the URL of the server for new connections; it may start later
 * @param first the first bytes of each connection to the server
 */
export async function startProxy(
  target: string | (() => string),
  atEnd: (end: () => Promise<void>) => void = onTestFinished,
  first: readonly Buffer[] = [],
): Promise<TcpProxy> {
  const targetUrl = () => {
    const to = typeof target === 'string' ? target : target()
    return new URL(to.includes('://') ? to : `http://${to}`)
  }
  const sockets = new Set<Socket>()
  const pairs = new Set<readonly [incoming: Socket, outgoing: Socket]>()
  const lost = new Set<Socket>()
  /** Sockets whose end does not reach the other side any more. */
  const deaf = new WeakSet<Socket>()
  let bytes = 0
  let accepted = 0
  let silent = false
  const lose = (incoming: Socket) => {
    lost.add(incoming)
    incoming.on('close', () => lost.delete(incoming))
  }
  const server = createServer((incoming) => {
    accepted += 1
    if (silent) {
      sockets.add(incoming)
      incoming.on('error', () => undefined).on('close', () => sockets.delete(incoming))
      incoming.resume()
      lose(incoming)
      return
    }
    const { hostname, port } = targetUrl()
    const outgoing = connect(Number(port), hostname).setNoDelay(true)
    for (const part of first) outgoing.write(part)
    outgoing.on('data', (chunk) => {
      bytes += chunk.length
    })
    const pair = [incoming, outgoing] as const
    pairs.add(pair)
    for (const [socket, other] of [pair, pair.toReversed() as [Socket, Socket]]) {
      sockets.add(socket)
      socket.pipe(other)
      const end = (): void => void (deaf.has(socket) || other.destroy())
      socket.on('error', end)
      socket.on('close', () => {
        sockets.delete(socket)
        pairs.delete(pair)
        end()
      })
    }
  })
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  const listen = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const block = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      cut()
    })
  const mute = (socket: Socket) => {
    deaf.add(socket)
    socket.unpipe()
    // Read, so that its end is noticed.
    socket.resume()
  }
  const freeze = () => {
    for (const socket of sockets) socket.unpipe()
    for (const socket of sockets) socket.pause()
  }
  await listen(0)
  atEnd(block)
  const { port } = server.address() as AddressInfo
  const address = `127.0.0.1:${port}`
  return {
    address,
    url: `http://${address}`,
    through: Object.assign(targetUrl(), { host: address }).href,
    bytes: () => bytes,
    accepted: () => accepted,
    connections: () => sockets.size / 2,
    cut,
    block,
    unblock: () => listen(port),
    freeze,
    silence(direction = 'both') {
      silent = true
      for (const [incoming, outgoing] of pairs) {
        if (direction !== 'from the server') mute(incoming)
        if (direction !== 'to the server') mute(outgoing)
        lose(incoming)
      }
    },
    endSilence() {
      silent = false
    },
    lost: () => lost.size,
  }
}
