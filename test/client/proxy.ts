import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A TCP proxy to a real server that can be cut, blocked and frozen. */
export interface Proxy {
  /** `host:port` */
  readonly address: string
  /** `http://host:port` */
  readonly url: string
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
  /** Freezes, and does not forward what new connections send: as a host that vanished. */
  silence(): void
  /** Forwards new connections again. Those of the silence stay silent. */
  endSilence(): void
}

/** @param target `host:port` of the server for new connections; it may start later */
export async function startProxy(target: string | (() => string)): Promise<Proxy> {
  const sockets = new Set<Socket>()
  let bytes = 0
  let accepted = 0
  let silent = false
  const server = createServer((incoming) => {
    accepted += 1
    if (silent) {
      sockets.add(incoming)
      incoming.on('error', () => undefined).on('close', () => sockets.delete(incoming))
      return
    }
    const { hostname, port } = new URL(`http://${typeof target === 'string' ? target : target()}`)
    const outgoing = connect(Number(port), hostname)
    outgoing.on('data', (chunk) => {
      bytes += chunk.length
    })
    for (const [socket, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(socket)
      socket.pipe(other)
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
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
  const freeze = () => {
    for (const socket of sockets) socket.unpipe()
    for (const socket of sockets) socket.pause()
  }
  await listen(0)
  onTestFinished(block)
  const { port } = server.address() as AddressInfo
  return {
    address: `127.0.0.1:${port}`,
    url: `http://127.0.0.1:${port}`,
    bytes: () => bytes,
    accepted: () => accepted,
    connections: () => sockets.size / 2,
    cut,
    block,
    unblock: () => listen(port),
    freeze,
    silence() {
      silent = true
      freeze()
    },
    endSilence() {
      silent = false
    },
  }
}

/** A port of 127.0.0.1 without a listener. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
