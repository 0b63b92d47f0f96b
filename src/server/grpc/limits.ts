import { MINUTE_MS } from '../../core/durations.ts'
/** What the gRPC server allows a client, and how long it waits. */
export interface GrpcLimits {
  /** The largest request message. RecordPayments takes 1,000 payments of at most some 3 KB each. */
  readonly messageBytesMax: number
  /** The largest request that needs no credential: health and reflection. */
  readonly openMessageBytesMax: number
  /** Names and values of the headers of one call, in bytes. */
  readonly headerBytesMax: number
  /** Calls in progress per connection, per address and in total, including event streams. */
  readonly streamsPerConnectionMax: number
  readonly streamsPerAddressMax: number
  readonly streamsMax: number
  /** Bytes held per connection, per address and in total: headers, incomplete requests. */
  readonly heldBytesPerConnectionMax: number
  readonly heldBytesPerAddressMax: number
  readonly heldBytesMax: number
  /** Until a proxy has named its client, in milliseconds. */
  readonly proxyHeaderMs: number
  /** Until a connection sends its first bytes, in milliseconds. */
  readonly greetingMs: number
  /** Until a request is complete. */
  readonly requestMs: number
  /** Until the client reads the response of a unary call. */
  readonly responseMs: number
  /** Until a subscriber reads anything of what is sent to it. */
  readonly streamStallMs: number
  /** The duration of a reflection stream. */
  readonly reflectionMs: number
  /** Between two PINGs of the server, and until their acknowledgement: finds clients that are gone. */
  readonly keepaliveMs: number
  readonly keepaliveTimeoutMs: number
  /** Until a connection without a call is closed. */
  readonly idleMs: number
  /** The age, ±10 %, at which a connection is replaced, so that load balancers rebalance. */
  readonly connectionAgeMs: number
  /** For calls in progress on a connection that is replaced: longer than an event stream lasts. */
  readonly connectionAgeGraceMs: number
}

const MIB = 1024 * 1024
export const GRPC_LIMITS: GrpcLimits = {
  messageBytesMax: 4 * MIB,
  openMessageBytesMax: 4 * 1024,
  headerBytesMax: 16 * 1024,
  streamsPerConnectionMax: 1_000,
  streamsPerAddressMax: 10_000,
  streamsMax: 50_000,
  heldBytesPerConnectionMax: 32 * MIB,
  heldBytesPerAddressMax: 64 * MIB,
  heldBytesMax: 256 * MIB,
  proxyHeaderMs: 5_000,
  greetingMs: 10_000,
  requestMs: 30_000,
  responseMs: 30_000,
  streamStallMs: 5 * MINUTE_MS,
  reflectionMs: 5 * MINUTE_MS,
  keepaliveMs: 30_000,
  // gRPC's own default. A PING waits behind the events that are already on their way.
  keepaliveTimeoutMs: 20_000,
  idleMs: 10 * MINUTE_MS,
  connectionAgeMs: 30 * MINUTE_MS,
  connectionAgeGraceMs: 40 * MINUTE_MS,
}
