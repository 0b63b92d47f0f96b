import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { ClientIdentity } from './client-certificate.ts'
import type { Usage } from './usage.ts'

/** Calls of one connection that are refused for a limit, before the connection is closed. */
const REFUSALS_MAX = 100

/**
 * What a client may send besides calls: PING, SETTINGS, WINDOW_UPDATE and other frames that ask for
 * work and bring none. Node's nghttp2 limits the frames that wait for an answer, not those that
 * were answered, so bytes are counted at the socket. Frames that go with a call or with messages
 * that were sent have their own allowance.
 */
const OVERHEAD = {
  burstBytes: 1024 * 1024,
  bytesPerSecond: 64 * 1024,
  bytesPerStream: 64 * 1024,
  perByteSent: 0.5,
} as const

/** What a client of HTTP/2 begins with (RFC 9113, section 3.4). */
const PREFACE_BYTES = 24

/** One connection to the gRPC server. */
export class GrpcConnection {
  readonly address: string
  readonly usage: Usage
  readonly #socket: Socket
  readonly #identity: ClientIdentity | undefined
  readonly #openedMs: number
  #refusals = 0
  #allowedBytes = 0
  #checkedMs: number
  /** What was read besides calls, when it was last checked; and how far that is over the allowance. */
  #besidesBytes = 0
  #excessBytes = 0

  constructor(
    socket: Socket,
    identity: ClientIdentity | undefined,
    usage: Usage,
    openedMs: number,
  ) {
    this.address = socket.remoteAddress ?? ''
    this.usage = usage
    this.#socket = socket
    this.#identity = identity
    this.#openedMs = openedMs
    this.#checkedMs = openedMs
  }

  /** The URI in the certificate of the client, while that is valid. */
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
   * Ends a stream that is over a limit; clients see RESOURCE_EXHAUSTED.
   *
   * @param weight how many refusals this one counts as
   */
  refuse(stream: ServerHttp2Stream, weight = 1): void {
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.#refusals += weight
    if (this.#refusals >= REFUSALS_MAX) this.#socket.destroy()
  }

  /** Closes the connection if its client said nothing in time, or sends too much besides calls. */
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
