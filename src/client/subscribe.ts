import { setTimeout as wait } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { anyUnpack, timestampFromMs } from '@bufbuild/protobuf/wkt'
import {
  type ChannelCredentials,
  Client,
  type ClientReadableStream,
  credentials as grpcCredentials,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { StatusSchema } from '../../gen/google/rpc/status_pb.ts'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  EventService,
  SubscribeRequestSchema,
  type SubscribeResponse,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'

/** Between attempts to connect: the first, and the longest. */
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 15_000

/** How many ids are remembered to recognise a repeat. */
const SEEN_MAX = 10_000

/** A connection that is silent for longer than checkpoints allow is dead. */
const SILENCE_MS = 45_000

export interface SubscribeOptions {
  /** Instances of the service, `host:port`; the next one is tried when one fails. */
  readonly addresses: readonly string[]
  /** An internal token with the scope events:subscribe. */
  readonly token: string
  /** Where to start; absent: now. */
  readonly start?: MessageInitShape<typeof SubscribeRequestSchema>['start']
  /** Only these kinds; absent: all. */
  readonly kinds?: readonly string[]
  /** Only of these businesses; absent: of all. */
  readonly businessIds?: readonly string[]
  /** Absent: plain text. */
  readonly credentials?: ChannelCredentials
  /** Ends the subscription. */
  readonly signal?: AbortSignal
  /** A place that all events before were handed out at; worth keeping, as an event's cursor is. */
  readonly onCheckpoint?: (cursor: string) => void
  /** Told of every interruption that is waited out. */
  readonly onInterruption?: (error: Error, retryMs: number) => void
}

/** The service refused to go on, and asking again would not help. */
export class SubscriptionRefused extends Error {
  override readonly name = 'SubscriptionRefused'
  /** A gRPC code. */
  readonly code: status
  /** The stable reason: unauthorized, stale_cursor, expired_cursor, … */
  readonly reason: string
  /** Where it is safe to go on, after stale_cursor and expired_cursor. */
  readonly cursor: string | undefined

  constructor(cause: ServiceError) {
    super(cause.details || cause.message, { cause })
    const info = errorInfo(cause)
    this.code = cause.code
    this.reason = info?.reason ?? ''
    this.cursor = info?.metadata['cursor']
  }
}

/**
 * Hands out events in order, each once, over restarts and moves of the service: it resumes at the
 * last cursor, at the next instance, and backs off with jitter while there is none.
 *
 *     for await (const event of subscribe({ addresses: ['127.0.0.1:50051'], token, start })) {
 *       await handle(event)
 *       await keep(event.cursor) // and next time: start: { case: 'cursor', value: kept }
 *     }
 *
 * @throws SubscriptionRefused
 */
export async function* subscribe(options: SubscribeOptions): AsyncGenerator<Event> {
  const signal = options.signal ?? new AbortController().signal
  const seen = new Set<string>()
  // "Now" has to stay the now of the first attempt, also when that one fails.
  let start = options.start ?? { case: 'since' as const, value: timestampFromMs(Date.now()) }
  let first = options.start === undefined
  let retryMs = RETRY_MIN_MS
  for (let attempt = 0; !signal.aborted; attempt++) {
    const address = options.addresses[attempt % options.addresses.length]
    if (address === undefined) throw new RangeError('subscribe needs an address')
    const connection = open(options, address, first ? undefined : start, signal)
    try {
      for await (const { item } of connection.items) {
        first = false
        retryMs = RETRY_MIN_MS
        if (item.case === undefined) continue
        if (item.case === 'event' && remember(seen, item.value.id)) yield item.value
        // Only when it was handled: a stop in between must not skip it.
        start = { case: 'cursor', value: item.value.cursor }
        if (item.case === 'checkpoint') options.onCheckpoint?.(item.value.cursor)
      }
    } catch (error) {
      if (signal.aborted) return
      if (!isPassing(error)) throw isServiceError(error) ? new SubscriptionRefused(error) : error
      const jitteredMs = retryMs * (0.5 + Math.random())
      options.onInterruption?.(error as Error, jitteredMs)
      await wait(jitteredMs, undefined, { signal }).catch(() => undefined)
      retryMs = Math.min(retryMs * 2, RETRY_MAX_MS)
    } finally {
      connection.close()
    }
  }
}

interface Connection {
  readonly items: AsyncIterable<SubscribeResponse>
  close(): void
}

function open(
  options: SubscribeOptions,
  address: string,
  start: SubscribeOptions['start'],
  signal: AbortSignal,
): Connection {
  const client = new Client(address, options.credentials ?? grpcCredentials.createInsecure(), {
    'grpc.keepalive_time_ms': 20_000,
    'grpc.keepalive_timeout_ms': 10_000,
    'grpc.max_receive_message_length': 4 * 1024 * 1024,
  })
  const metadata = new Metadata()
  metadata.set('authorization', `Bearer ${options.token}`)
  const request = create(SubscribeRequestSchema, {
    ...(start && { start }),
    kinds: [...(options.kinds ?? [])],
    businessIds: [...(options.businessIds ?? [])],
  })
  const method = EventService.method.subscribe
  const stream: ClientReadableStream<SubscribeResponse> = client.makeServerStreamRequest(
    `/${EventService.typeName}/${method.name}`,
    (message: typeof request) => Buffer.from(toBinary(SubscribeRequestSchema, message)),
    (bytes: Buffer) => fromBinary(SubscribeResponseSchema, bytes),
    request,
    metadata,
  )
  const cancel = (): void => stream.cancel()
  // Checkpoints come every 15 s; without any, the way is broken and nobody told us.
  const silence = setInterval(cancel, SILENCE_MS)
  stream.on('data', () => silence.refresh())
  // `data` listeners make a stream flow; the iterator below is what paces it.
  stream.pause()
  signal.addEventListener('abort', cancel, { once: true })
  // An error after the iteration was left has nobody else to hear it.
  stream.on('error', () => undefined)
  return {
    items: stream,
    close() {
      clearInterval(silence)
      signal.removeEventListener('abort', cancel)
      stream.cancel()
      client.close()
    },
  }
}

/** @returns false when the id was seen before */
function remember(seen: Set<string>, id: string): boolean {
  if (seen.has(id)) return false
  seen.add(id)
  if (seen.size > SEEN_MAX) seen.delete(seen.values().next().value as string)
  return true
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number'
}

/** Whether a fresh attempt may go well: the way failed, or the service is away for now. */
function isPassing(error: unknown): boolean {
  if (!isServiceError(error)) return false
  const passing: readonly status[] = [
    status.UNAVAILABLE,
    status.CANCELLED,
    status.DEADLINE_EXCEEDED,
    status.INTERNAL,
    status.UNKNOWN,
    status.ABORTED,
    status.RESOURCE_EXHAUSTED,
  ]
  return passing.includes(error.code)
}

function errorInfo(error: ServiceError) {
  const [bytes] = error.metadata.get('grpc-status-details-bin')
  if (!Buffer.isBuffer(bytes)) return undefined
  for (const detail of fromBinary(StatusSchema, bytes).details) {
    const info = anyUnpack(detail, ErrorInfoSchema)
    if (info) return info
  }
  return undefined
}
