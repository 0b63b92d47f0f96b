import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import {
  type ChannelCredentials,
  Client,
  type ClientReadableStream,
  credentials as grpcCredentials,
  Metadata,
} from '@grpc/grpc-js'
import {
  EventService,
  type SubscribeRequest,
  SubscribeRequestSchema,
  type SubscribeResponse,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import { type ChannelSecurity, type ClientTls, secure } from './credentials.ts'
import { Interruption } from './interruption.ts'

type Item = SubscribeResponse['item']

/** One stream from one instance. */
export interface Connection {
  /** The next item; undefined at a normal end of the stream. @throws ServiceError, Interruption */
  next(): Promise<Item | undefined>
  /** Milliseconds since the first item arrived; 0 if none did. */
  uptimeMs(): number
  /** Cancels the stream and releases all resources. */
  close(): void
}

/** Which events to stream, and the credentials of the connection. */
export interface StreamOptions {
  /** An internal token with the scope events:subscribe; empty: the client certificate identifies the caller. */
  readonly token: string
  /** Where to start; absent: now. */
  readonly start?: MessageInitShape<typeof SubscribeRequestSchema>['start']
  /** Only events of these kinds; absent: all. */
  readonly kinds?: readonly string[]
  /** Only events of these businesses; absent: all. */
  readonly businessIds?: readonly string[]
  /** True: only events of live mode; false: only of test mode; absent: both. */
  readonly live?: boolean
  /** Absent: no TLS. `{}` trusts the certificate authorities that Node trusts. */
  readonly tls?: ClientTls
  /** Channel credentials of grpc-js, instead of `tls`. */
  readonly credentials?: ChannelCredentials
}

interface ConnectOptions extends StreamOptions {
  /** `host:port` */
  readonly address: string
  readonly silenceMs: number
}

const CHANNEL_OPTIONS = {
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.max_receive_message_length': 4 * 1024 * 1024,
  // Each attempt opens a new connection: one that is shared with other streams of this process may
  // be broken, or may be waiting for its own retry.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
  // Instances are reached directly, not through the web proxy of the environment.
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_channelz': 0,
}

/**
 * Opens a stream. Data is read from the network on demand, with a read-ahead of about 64 KiB (the
 * HTTP/2 window) and 16 events, so a slow consumer does not use more memory. This applies from the
 * first call of `next`, which must follow at once.
 */
export function connect(options: ConnectOptions, signal: AbortSignal): Connection {
  const security = securityOf(options)
  const channelOptions = { ...CHANNEL_OPTIONS, ...security.options }
  const client = new Client(options.address, security.credentials, channelOptions)
  const stream = openStream(client, options)
  const items = stream[Symbol.asyncIterator]()
  const cancel = () => stream.cancel()
  let waiting = false
  let silent = false
  let firstAt: number | undefined
  // No item arrives unless one is requested, so only the time spent waiting in `next` counts.
  const silenceTimer = setInterval(() => {
    silent ||= waiting
    if (waiting) cancel()
  }, options.silenceMs)
  signal.addEventListener('abort', cancel, { once: true })
  // Without a handler, an error after the end of the iteration would end the process.
  stream.on('error', () => undefined)
  return {
    async next() {
      waiting = true
      silenceTimer.refresh()
      try {
        const { value, done } = await items.next()
        if (done === true) return undefined
        firstAt ??= performance.now()
        return value.item
      } catch (error) {
        if (!silent) throw error
        // The connection is broken, but was not closed.
        throw new Interruption(`nothing was received for ${options.silenceMs / 1000} s`)
      } finally {
        waiting = false
      }
    },
    uptimeMs: () => (firstAt === undefined ? 0 : performance.now() - firstAt),
    close() {
      clearInterval(silenceTimer)
      signal.removeEventListener('abort', cancel)
      cancel()
      client.close()
    },
  }
}

function securityOf({ address, tls, credentials }: ConnectOptions): ChannelSecurity {
  if (tls !== undefined) return secure(address, tls)
  return { credentials: credentials ?? grpcCredentials.createInsecure(), options: {} }
}

function openStream(
  client: Client,
  { token, start, kinds = [], businessIds = [], live }: ConnectOptions,
): ClientReadableStream<SubscribeResponse> {
  const metadata = new Metadata()
  if (token !== '') metadata.set('authorization', `Bearer ${token}`)
  return client.makeServerStreamRequest(
    `/${EventService.typeName}/${EventService.method.subscribe.name}`,
    (message: SubscribeRequest) => Buffer.from(toBinary(SubscribeRequestSchema, message)),
    (bytes) => fromBinary(SubscribeResponseSchema, bytes),
    create(SubscribeRequestSchema, {
      ...(start && { start }),
      kinds: [...kinds],
      businessIds: [...businessIds],
      ...(live !== undefined && { live }),
    }),
    metadata,
  )
}
