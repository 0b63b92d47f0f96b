import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import {
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
import { type ChannelSecurity, secure } from './credentials.ts'
import { Interruption } from './interruption.ts'
import type { SubscribeOptions } from './subscribe.ts'

type Item = SubscribeResponse['item']

/** One stream of one instance. */
export interface Connection {
  /** The next item; undefined at the end in good order. @throws ServiceError, Interruption */
  next(): Promise<Item | undefined>
  /** How long ago the first item came; 0 when none did. */
  stoodMs(): number
  /** Lets go of everything, whatever is under way. */
  close(): void
}

interface ConnectOptions
  extends Pick<
    SubscribeOptions,
    'token' | 'start' | 'kinds' | 'businessIds' | 'live' | 'credentials' | 'tls'
  > {
  /** `host:port` */
  readonly address: string
  readonly silenceMs: number
}

const CHANNEL_OPTIONS = {
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.max_receive_message_length': 4 * 1024 * 1024,
  // Each attempt connects anew: what other streams of this process share may be the very
  // connection that is broken, or wait for its own next attempt.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
  // Instances are reached directly: a proxy for the web does not know them.
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_channelz': 0,
}

/**
 * Opens a stream. What the instance sends is read from the network as it is asked for, but for
 * some 64 KiB ahead (the window of HTTP/2) and 16 events: a consumer that takes its time is no
 * burden on the memory. That holds from the first `next` on, which has to follow at once.
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
  // Nothing comes while nothing is asked for: only a consumer that waits can be kept waiting.
  const silence = setInterval(() => {
    silent ||= waiting
    if (waiting) cancel()
  }, options.silenceMs)
  signal.addEventListener('abort', cancel, { once: true })
  // An error after the iteration was left has nobody else to hear it.
  stream.on('error', () => undefined)
  return {
    async next() {
      waiting = true
      silence.refresh()
      try {
        const { value, done } = await items.next()
        if (done === true) return undefined
        firstAt ??= performance.now()
        return value.item
      } catch (error) {
        if (!silent) throw error
        // The way is broken, and nobody told us.
        throw new Interruption(`nothing was heard for ${options.silenceMs / 1000} s`)
      } finally {
        waiting = false
      }
    },
    stoodMs: () => (firstAt === undefined ? 0 : performance.now() - firstAt),
    close() {
      clearInterval(silence)
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
