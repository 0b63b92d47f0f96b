import type { Socket } from 'node:net'
import type { ClientIdentity } from '../client-certificate.ts'
import { Http2Connection } from './connection.ts'
import type { ConnectionHost } from './host.ts'
import type { Http2Limits } from './limits.ts'
import type { Outbox } from './outbox.ts'
import { Quota } from './quota.ts'

/** Serves HTTP/2 (RFC 9113) on the sockets that it is given, with prior knowledge or after ALPN. */
export interface Http2Server {
  accept(socket: Socket, identity: ClientIdentity | undefined): void
  /** Connections take no new streams, and end when those under way have. */
  drain(): void
  /** Stops looking after connections. */
  stop(): void
}

/** How often what takes too long is looked for, at the most and at the least. */
const TICK_MS = { most: 1_000, least: 5 } as const

export function createHttp2Server(
  limits: Http2Limits,
  { open, failed }: Pick<ConnectionHost, 'open' | 'failed'>,
): Http2Server {
  const connections = new Set<Http2Connection>()
  let full: Outbox[] = []
  const flush = (): void => {
    const turn = full
    full = []
    for (const outbox of turn) outbox.flush()
  }
  const host: ConnectionHost = {
    limits,
    quota: new Quota(limits),
    open,
    failed,
    schedule(outbox) {
      // After all that this turn brings, be it from clients or from the database.
      if (full.push(outbox) === 1) setImmediate(flush)
    },
    closed: (connection) => void connections.delete(connection),
  }
  const { greetingMs, requestMs, keepaliveMs, keepaliveTimeoutMs, idleMs } = limits
  const waits = [greetingMs, requestMs, keepaliveMs, keepaliveTimeoutMs, idleMs]
  const tick = (): void => {
    const nowMs = performance.now()
    for (const connection of connections) connection.tick(nowMs)
  }
  const tickMs = Math.max(TICK_MS.least, Math.min(TICK_MS.most, ...waits))
  const timer = setInterval(tick, tickMs).unref()
  return {
    accept(socket, identity) {
      // Who has gone meanwhile needs nobody to listen.
      if (!socket.destroyed) connections.add(new Http2Connection(socket, identity, host))
    },
    drain() {
      for (const connection of [...connections]) connection.drain()
    },
    stop: () => clearInterval(timer),
  }
}
