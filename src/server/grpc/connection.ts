import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import type { ClientIdentity } from './client-certificate.ts'
import type { Usage } from './usage.ts'

/** Calls refused for a limit before their connection is closed. */
const REFUSALS_MAX = 100

/**
 * What a client may send outside of calls: PING, SETTINGS, WINDOW_UPDATE and other frames that only
 * cause work. nghttp2 limits unacknowledged frames, not acknowledged ones, so bytes are counted at
 * the socket. Frames that belong to a call or to sent messages have an allowance of their own.
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
  /** The client's. */
  readonly address: string
  readonly usage: Usage
  readonly #socket: Socket
  readonly #identity: ClientIdentity | undefined
  readonly #openedMs: number
  #refusals = 0
  #allowedBytes = 0
  #checkedMs: number
  /** Bytes outside of calls at the last check, and how far they exceed the allowance. */
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
   * @param weight how many refusals this one counts as
   */
  refuse(stream: ServerHttp2Stream, weight = 1): void {
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.#refusals += weight
    if (this.#refusals >= REFUSALS_MAX) this.#socket.destroy()
  }

  /** Closes the connection if its client was silent too long, or sends too much outside of calls. */
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
