import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** The way to a real server, which can be cut, blocked and held up. */
export interface Proxy {
  /** `host:port` */
  readonly address: string
  /** http:// and the address */
  readonly url: string
  /** How many bytes came from the server. */
  bytes(): number
  /** How many connections stand. */
  connections(): number
  /** Drops every connection, as a crash on the way does. New ones are taken. */
  cut(): void
  /** Drops every connection, and refuses new ones. */
  block(): Promise<void>
  /** Takes connections again, at the same port. */
  unblock(): Promise<void>
  /** Passes nothing on any more, and tells nobody. Holds for the connections of now. */
  freeze(): void
}

/** @param target `host:port` of the server, also one that comes later */
export async function startProxy(target: string): Promise<Proxy> {
  const sockets = new Set<Socket>()
  let bytes = 0
  const server = createServer((incoming) => {
    const { hostname, port } = new URL(`http://${target}`)
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
  await listen(0)
  onTestFinished(block)
  const { port } = server.address() as AddressInfo
  return {
    address: `127.0.0.1:${port}`,
    url: `http://127.0.0.1:${port}`,
    bytes: () => bytes,
    connections: () => sockets.size / 2,
    cut,
    block,
    unblock: () => listen(port),
    freeze() {
      for (const socket of sockets) socket.unpipe()
      for (const socket of sockets) socket.pause()
    },
  }
}

/** A port of 127.0.0.1 that nobody listens at. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
