import type { QuotaLimits } from './quota.ts'

/** What a server of HTTP/2 allows and waits for. */
export interface Http2Limits extends QuotaLimits {
  /** For a client to say that it speaks HTTP/2, in milliseconds. */
  readonly greetingMs: number
  /** For a request to be complete. */
  readonly requestMs: number
  /** Between two PINGs, which notice a client that lost its network; and for their answer. */
  readonly keepaliveMs: number
  readonly keepaliveTimeoutMs: number
  /** Connections that nobody uses for so long make room for others. */
  readonly idleMs: number
  /** Calls under way on one connection. */
  readonly streamsPerConnectionMax: number
}

export const HTTP2_LIMITS: Http2Limits = {
  greetingMs: 10_000,
  requestMs: 30_000,
  keepaliveMs: 30_000,
  keepaliveTimeoutMs: 10_000,
  idleMs: 10 * 60_000,
  streamsPerConnectionMax: 1_000,
  pendingBytesPerAddressMax: 64 * 1024 * 1024,
  pendingBytesMax: 256 * 1024 * 1024,
  streamsPerAddressMax: 10_000,
  streamsMax: 50_000,
}

/** Room that a client has for bodies before it is given more. */
export const RECEIVE_WINDOW_BYTES = { connection: 1024 * 1024, stream: 256 * 1024 } as const

/** What a request's headers may come to: bytes as the standard counts them, and fields. */
export const HEADER_LIST_BYTES_MAX = 64 * 1024
export const HEADER_FIELDS_MAX = 128

/** A block of headers before it is read, and the frames that it may come in. */
export const BLOCK_BYTES_MAX = 128 * 1024
export const BLOCK_FRAMES_MAX = 64

/** Streams that end before their answer, by whoever: a burst, and so many a second. */
export const RESETS = { burst: 1_000, perSecond: 33 } as const

/**
 * Frames that ask for work and bring nothing: PING, SETTINGS, PRIORITY, empty DATA, what is unknown.
 * WINDOW_UPDATE is one as well, unless we send bodies.
 */
export const IDLE_FRAMES = { burst: 10_000, perSecond: 1_000, perFrameSent: 10 } as const

/** Changed windows are looked at for every stream. */
export const SETTINGS_COST = 10

/** Calls of a connection that are refused for a limit, before the connection is. */
export const REFUSALS_MAX = 100

/** Answers that a connection's client does not take. */
export const WAITING_BYTES_MAX = 16 * 1024 * 1024

/** How long a client may go on sending what is not read any more, and how much. */
export const LINGER = { ms: 1_000, bytes: 64 * 1024 } as const
