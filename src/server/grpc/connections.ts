import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { PeerCertificate } from 'node:tls'
import { addressGroup } from '../../core/addresses.ts'
import { MINUTE_MS } from '../../core/durations.ts'

/** The number of refused calls after which a connection is closed. */
const REFUSALS_MAX = 100

/**
 * How much a client may send outside of calls: PING, SETTINGS, WINDOW_UPDATE and other frames that only
 * cause work. nghttp2 limits only frames that are not yet acknowledged, so bytes are counted at the socket. Frames that
 * belong to a call or to sent messages have an allowance of their own.
 */
const OVERHEAD = {
  burstBytes: 1024 * 1024,
  bytesPerSecond: 64 * 1024,
  bytesPerStream: 64 * 1024,
  perByteSent: 0.5,
} as const

/** The length of the HTTP/2 client preface (RFC 9113, section 3.4). */
const PREFACE_BYTES = 24

/** One connection to the gRPC server. */
export class GrpcConnection {
  /** The address of the client. */
  readonly address: string
  readonly usage: Usage
  readonly #socket: Socket
  readonly #identity: ClientIdentity | undefined
  readonly #openedMs: number
  #refusals = 0
  #allowedBytes = 0
  #checkedMs: number
  /** The bytes outside of calls at the last check, and by how much they exceeded the allowance. */
  #besidesBytes = 0
  #excessBytes = 0

  constructor(
    socket: Socket,
    identity: ClientIdentity | undefined,
    address: string,
    usage: Usage,
    openedMs: number,
  ) {
    this.address = address
    this.usage = usage
    this.#socket = socket
    this.#identity = identity
    this.#openedMs = openedMs
    this.#checkedMs = openedMs
  }

  /** The URI in the client certificate, while the certificate is valid. */
  get clientUri(): string | undefined {
    const identity = this.#identity
    return identity && identity.expiresMs > Date.now() ? identity.uri : undefined
  }

  streamOpened(): void {
    this.#allowedBytes += OVERHEAD.bytesPerStream
  }

  bodyReceived(bytes: number): void {
    this.#allowedBytes += bytes
  }

  /**
   * Resets a stream that exceeds a limit; its client gets RESOURCE_EXHAUSTED.
   *
   * @param weight how many refusals it counts as
   */
  refuse(stream: ServerHttp2Stream, weight = 1): void {
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.#refusals += weight
    if (this.#refusals >= REFUSALS_MAX) this.#socket.destroy()
  }

  /** Closes the connection if its client has sent nothing for too long, or too much outside of calls. */
  check(nowMs: number, greetingMs: number): void {
    const { bytesRead, bytesWritten } = this.#socket
    const silent = bytesRead < PREFACE_BYTES && nowMs - this.#openedMs > greetingMs
    const allowed = this.#allowedBytes + bytesWritten * OVERHEAD.perByteSent
    const drained = ((nowMs - this.#checkedMs) / 1_000) * OVERHEAD.bytesPerSecond
    const besides = bytesRead - allowed
    this.#excessBytes = Math.max(0, this.#excessBytes + besides - this.#besidesBytes - drained)
    this.#besidesBytes = besides
    this.#checkedMs = nowMs
    if (silent || this.#excessBytes > OVERHEAD.burstBytes) this.#socket.destroy()
  }
}

/** The identity in a client certificate, and its expiry. */
export interface ClientIdentity {
  readonly uri: string
  /** Milliseconds since the Unix epoch: a connection may outlive its certificate. */
  readonly expiresMs: number
}

/**
 * Returns the URI of a verified certificate: the only URI among its alternative names (SPIFFE,
 * X.509-SVID). Undefined if it has no URI or several.
 */
export function identityOf({
  subjectaltname,
  valid_to: validTo,
}: Pick<PeerCertificate, 'subjectaltname' | 'valid_to'>): ClientIdentity | undefined {
  const uris = readNames(subjectaltname ?? '').filter(([kind]) => kind === 'URI')
  const [only] = uris
  if (only === undefined || uris.length > 1) return undefined
  const expiresMs = Date.parse(validTo)
  return Number.isNaN(expiresMs) ? undefined : { uri: only[1], expiresMs }
}

/**
 * Node writes names as `DNS:a.example, URI:spiffe://…`, and quotes names that contain commas or quotes. A parser that
 * ignored the quotes would take a crafted DNS name for a URI.
 */
function readNames(text: string): (readonly [kind: string, name: string])[] {
  const names: (readonly [string, string])[] = []
  const each = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y
  while (each.lastIndex < text.length) {
    const match = each.exec(text)
    // A text that Node did not write in this form is rejected as a whole.
    if (match === null) return []
    names.push([match[1] ?? '', match[2] ?? ''])
  }
  return names
}

type Session = NonNullable<ServerHttp2Stream['session']>

/** The connections to one gRPC server. */
export interface GrpcConnections {
  /** @param address of the client, which may be behind a proxy */
  add(socket: Socket, identity: ClientIdentity | undefined, address: string): void
  /** @param peer as grpc-js states it: `127.0.0.1:5000`. @returns undefined if the connection has closed */
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

/** The usage of each address that has connections. */
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

/** Limits of what may be in use at once. */
interface UsageLimits {
  readonly streamsMax: number
  readonly heldBytesMax: number
}

/** Counts streams and held bytes. A connection's usage also counts for its address, and that for the total. */
class Usage {
  readonly #limits: UsageLimits
  readonly #outer: Usage | undefined
  #streams = 0
  #heldBytes = 0

  constructor(limits: UsageLimits, outer?: Usage) {
    this.#limits = limits
    this.#outer = outer
  }

  /** @returns whether the stream is within every limit; it is counted either way */
  addStream(): boolean {
    this.#streams += 1
    const fits = this.#outer?.addStream() ?? true
    return fits && this.#streams <= this.#limits.streamsMax
  }

  removeStream(): void {
    this.#streams -= 1
    this.#outer?.removeStream()
  }

  /** @returns whether the bytes are within every limit; they are counted either way */
  hold(bytes: number): boolean {
    this.#heldBytes += bytes
    const fits = this.#outer?.hold(bytes) ?? true
    return fits && this.#heldBytes <= this.#limits.heldBytesMax
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes
    this.#outer?.release(bytes)
  }
}

const MIB = 1024 * 1024

/** The limits and time-outs of the gRPC server. */
export const GRPC_LIMITS = {
  /** The largest request message. RecordPayments takes 1,000 payments of at most some 3 KB each. */
  messageBytesMax: 4 * MIB,
  /** The largest request of the services that need no credential: health and reflection. */
  openMessageBytesMax: 4 * 1024,
  /** Names and values of the headers of one call, in bytes. */
  headerBytesMax: 16 * 1024,
  /** Calls in progress per connection, per address and in total, including event streams. */
  streamsPerConnectionMax: 1_000,
  streamsPerAddressMax: 10_000,
  streamsMax: 50_000,
  /** Bytes of headers and incomplete requests that are held per connection, per address and in total. */
  heldBytesPerConnectionMax: 32 * MIB,
  heldBytesPerAddressMax: 64 * MIB,
  heldBytesMax: 256 * MIB,
  /** How long a proxy may take to name its client. */
  proxyHeaderMs: 5_000,
  /** How long a new connection may send nothing. */
  greetingMs: 10_000,
  /** How long a request may take to arrive completely. */
  requestMs: 30_000,
  /** How long a client may take to read the response of a unary call. */
  responseMs: 30_000,
  /** How long a subscriber may read nothing while messages wait for it. */
  streamStallMs: 5 * MINUTE_MS,
  /** The longest duration of a reflection stream. */
  reflectionMs: 5 * MINUTE_MS,
  /** The interval of the server's PINGs, and how long it waits for an acknowledgement: finds clients that are gone. */
  keepaliveMs: 30_000,
  // gRPC's own default. A PING waits behind events that are already being sent.
  keepaliveTimeoutMs: 20_000,
  /** How long a connection without calls stays open. */
  idleMs: 10 * MINUTE_MS,
  /** The age, ±10 %, at which a client has to reconnect, so that load balancers rebalance. */
  connectionAgeMs: 30 * MINUTE_MS,
  /** How long calls in progress may continue on such a connection: longer than an event stream lasts. */
  connectionAgeGraceMs: 40 * MINUTE_MS,
}

export type GrpcLimits = Readonly<typeof GRPC_LIMITS>
