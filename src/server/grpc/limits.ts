/** What the gRPC server allows a client, and how long it waits for one. */
export interface GrpcLimits {
  /** The largest request message. RecordPayments takes 1,000 payments of at most some 3 KB each. */
  readonly messageBytesMax: number
  /** The largest request that needs no credential: health and reflection. */
  readonly openMessageBytesMax: number
  /** Names and values of the headers of one call, in bytes. */
  readonly headerBytesMax: number
  /** Calls in progress on one connection, of one address, and in all; streams of subscribers count. */
  readonly streamsPerConnectionMax: number
  readonly streamsPerAddressMax: number
  readonly streamsMax: number
  /** Bytes held for calls of one connection, of one address, and in all: headers, incomplete requests. */
  readonly heldBytesPerConnectionMax: number
  readonly heldBytesPerAddressMax: number
  readonly heldBytesMax: number
  /** For a connection to send its first bytes, in milliseconds. */
  readonly greetingMs: number
  /** For a request to be complete. */
  readonly requestMs: number
  /** For the client to take the answer of a unary call. */
  readonly answerMs: number
  /** For a subscriber to take anything of what is sent to it. */
  readonly streamStallMs: number
  /** For a stream of server reflection in all. */
  readonly reflectionMs: number
  /** Between two PINGs of the server, and for their answer: finds clients that lost their network. */
  readonly keepaliveMs: number
  readonly keepaliveTimeoutMs: number
  /** A connection without a call is closed after this. */
  readonly idleMs: number
  /** A connection of this age, give or take a tenth, is replaced, so that load balancers rebalance. */
  readonly connectionAgeMs: number
  /** For calls in progress on a connection that is replaced: longer than a stream of events lasts. */
  readonly connectionAgeGraceMs: number
}

const MIB = 1024 * 1024
const MINUTE_MS = 60_000

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
  greetingMs: 10_000,
  requestMs: 30_000,
  answerMs: 30_000,
  streamStallMs: 5 * MINUTE_MS,
  reflectionMs: 5 * MINUTE_MS,
  keepaliveMs: 30_000,
  keepaliveTimeoutMs: 10_000,
  idleMs: 10 * MINUTE_MS,
  connectionAgeMs: 30 * MINUTE_MS,
  connectionAgeGraceMs: 40 * MINUTE_MS,
}
