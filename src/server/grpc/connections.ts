import type { ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { addressGroup } from '../../auth/rate-limits/address-group.ts'
import type { ClientIdentity } from './client-certificate.ts'
import { GrpcConnection } from './connection.ts'
import type { GrpcLimits } from './limits.ts'
import { Usage } from './usage.ts'

type Session = NonNullable<ServerHttp2Stream['session']>

/** The connections to one gRPC server. */
export interface GrpcConnections {
  /** @param address the client's, which may be behind a proxy */
  add(socket: Socket, identity: ClientIdentity | undefined, address: string): void
  /** @param peer as grpc-js states it: `127.0.0.1:5000`. @returns undefined if it has closed */
  find(peer: string): GrpcConnection | undefined
  /** The connection of an HTTP/2 session; undefined: the session belongs to another server. */
  of(session: Session): GrpcConnection | undefined
  check(nowMs: number): void
}

export function createGrpcConnections(limits: GrpcLimits): GrpcConnections {
  const all = new Usage({ streamsMax: limits.streamsMax, heldBytesMax: limits.heldBytesMax })
  const addresses = createAddresses(limits, all)
  const byPeer = new Map<string, GrpcConnection>()
  const bySession = new WeakMap<Session, GrpcConnection>()
  let port: number | undefined
  return {
    add(socket, identity, address) {
      const { remoteAddress = '', remotePort } = socket
      const peer = `${remoteAddress}:${remotePort}`
      const group = addressGroup(address)
      const usage = new Usage(
        {
          streamsMax: limits.streamsPerConnectionMax,
          heldBytesMax: limits.heldBytesPerConnectionMax,
        },
        addresses.enter(group),
      )
      port = socket.localPort
      byPeer.set(peer, new GrpcConnection(socket, identity, address, usage, performance.now()))
      socket.once('close', () => {
        byPeer.delete(peer)
        addresses.leave(group)
      })
    },
    find: (peer) => byPeer.get(peer),
    of(session) {
      const known = bySession.get(session)
      if (known !== undefined) return known
      const { socket } = session
      if (socket.localPort !== port) return undefined
      const connection = byPeer.get(`${socket.remoteAddress}:${socket.remotePort}`)
      if (connection !== undefined) bySession.set(session, connection)
      return connection
    },
    check(nowMs) {
      for (const connection of byPeer.values()) connection.check(nowMs, limits.greetingMs)
    },
  }
}

/** The usage of each address, for as long as it has connections. */
function createAddresses(limits: GrpcLimits, all: Usage) {
  const addresses = new Map<string, { readonly usage: Usage; connections: number }>()
  return {
    enter(group: string): Usage {
      let address = addresses.get(group)
      if (address === undefined) {
        const { streamsPerAddressMax: streamsMax, heldBytesPerAddressMax: heldBytesMax } = limits
        address = { usage: new Usage({ streamsMax, heldBytesMax }, all), connections: 0 }
        addresses.set(group, address)
      }
      address.connections += 1
      return address.usage
    },
    leave(group: string): void {
      const address = addresses.get(group)
      if (address === undefined) return
      address.connections -= 1
      if (address.connections === 0) addresses.delete(group)
    },
  }
}
