import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2'
import { networkOf } from './connections.ts'

/** What requests may take before anybody knows whose they are. */
export interface RequestLimits {
  /** For a request to be complete, in milliseconds. */
  readonly requestMs: number
  /** Bytes of bodies that are not complete, of one address and in all. */
  readonly pendingBytesPerAddressMax: number
  readonly pendingBytesMax: number
  /** Calls under way, of one address and in all, the streams of subscribers among them. */
  readonly streamsPerAddressMax: number
  readonly streamsMax: number
}

export const REQUEST_LIMITS: RequestLimits = {
  requestMs: 30_000,
  pendingBytesPerAddressMax: 64 * 1024 * 1024,
  pendingBytesMax: 256 * 1024 * 1024,
  streamsPerAddressMax: 10_000,
  streamsMax: 50_000,
}

/** Calls of a connection that are refused for a limit, before the connection is. */
const REFUSALS_MAX = 100

/** The server of HTTP/2 under the gRPC door. */
export interface StreamSource {
  on(event: 'stream', listener: (stream: ServerHttp2Stream) => void): unknown
}

/** What one address has under way. */
interface Account {
  sessions: number
  streams: number
  pendingBytes: number
}

/** A request of which more is to come. */
interface Pending {
  readonly stream: ServerHttp2Stream
  readonly account: Account
  readonly startedMs: number
  bytes: number
}

/**
 * Bounds what is held for requests that are not complete, and calls that are not over, whatever
 * the client does with its windows. Those over a limit end with ENHANCE_YOUR_CALM, which clients
 * see as RESOURCE_EXHAUSTED. Almost every request is complete in the turn it began in, and costs
 * two counts; only the others are watched.
 *
 * @returns how to stop
 */
export function boundRequests(source: StreamSource, limits: RequestLimits): () => void {
  const accounts = new Map<string, Account>()
  const all = { streams: 0, pendingBytes: 0 }
  const sessions = new WeakMap<Http2Session, { account: Account; closed: () => void }>()
  const refusals = new WeakMap<Http2Session, number>()
  const pending = new Set<Pending>()
  let fresh: ServerHttp2Stream[] = []

  const refuse = (stream: ServerHttp2Stream): void => {
    const { session } = stream
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
    if (session === undefined) return
    const count = (refusals.get(session) ?? 0) + 1
    refusals.set(session, count)
    if (count >= REFUSALS_MAX) session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }
  const sessionOf = (session: Http2Session) => {
    let known = sessions.get(session)
    if (known === undefined) {
      const network = networkOf(session.socket?.remoteAddress ?? '')
      const account = accounts.get(network) ?? { sessions: 0, streams: 0, pendingBytes: 0 }
      account.sessions += 1
      accounts.set(network, account)
      const closed = (): void => {
        account.streams -= 1
        all.streams -= 1
      }
      known = { account, closed }
      sessions.set(session, known)
      session.once('close', () => {
        account.sessions -= 1
        if (account.sessions === 0) accounts.delete(network)
      })
    }
    return known
  }
  const watch = (stream: ServerHttp2Stream): void => {
    if (stream.session === undefined) return
    const { account } = sessionOf(stream.session)
    const entry: Pending = { stream, account, startedMs: performance.now(), bytes: 0 }
    pending.add(entry)
    const release = (): void => {
      if (!pending.delete(entry)) return
      account.pendingBytes -= entry.bytes
      all.pendingBytes -= entry.bytes
    }
    stream.once('end', release).once('close', release)
    stream.on('data', (chunk: Buffer) => {
      if (!pending.has(entry)) return
      entry.bytes += chunk.length
      account.pendingBytes += chunk.length
      all.pendingBytes += chunk.length
      const { pendingBytesPerAddressMax, pendingBytesMax } = limits
      if (account.pendingBytes > pendingBytesPerAddressMax || all.pendingBytes > pendingBytesMax) {
        refuse(stream)
      }
    })
  }
  source.on('stream', (stream) => {
    if (stream.session === undefined) return
    const { account, closed } = sessionOf(stream.session)
    account.streams += 1
    all.streams += 1
    stream.on('close', closed)
    if (account.streams > limits.streamsPerAddressMax || all.streams > limits.streamsMax) {
      refuse(stream)
      return
    }
    if (fresh.push(stream) > 1) return
    setImmediate(() => {
      const turn = fresh
      fresh = []
      for (const each of turn) if (!each.readableEnded && !each.closed) watch(each)
    })
  })
  const timer = setInterval(
    () => {
      const tooOldMs = performance.now() - limits.requestMs
      // In the order they began in.
      for (const { startedMs, stream } of pending) {
        if (startedMs > tooOldMs) break
        refuse(stream)
      }
    },
    Math.min(1_000, limits.requestMs),
  ).unref()
  return () => clearInterval(timer)
}
