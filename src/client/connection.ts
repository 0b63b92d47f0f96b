import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { anyUnpack } from '@bufbuild/protobuf/wkt'
import {
  type ChannelCredentials,
  Client,
  type ClientReadableStream,
  credentials,
  credentials as grpcCredentials,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { type ErrorInfo, ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { StatusSchema } from '../../gen/google/rpc/status_pb.ts'
import {
  EventService,
  type SubscribeRequest,
  SubscribeRequestSchema,
  type SubscribeResponse,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'

type Item = SubscribeResponse['item']

/** One stream from one instance. */
interface Connection {
  /** The next item; undefined at a normal end of the stream. @throws ServiceError, Interruption */
  next(): Promise<Item | undefined>
  /** Milliseconds since the first item arrived; 0 if none did. */
  uptimeMs(): number
  /** Cancels the stream and releases all resources. */
  close(): void
}

/** The events to stream, and the credentials of the connection. */
export interface StreamOptions {
  /** An internal token with the scope events:subscribe; empty: the client certificate identifies the caller. */
  readonly token: string
  /** The start position; absent: now. */
  readonly start?: MessageInitShape<typeof SubscribeRequestSchema>['start']
  /** Only events of these kinds; absent: all. */
  readonly kinds?: readonly string[]
  /** Only events of these businesses; absent: all. */
  readonly businessIds?: readonly string[]
  /** True: only events of live mode; false: only of test mode; absent: both. */
  readonly live?: boolean
  /** TLS options; absent: no TLS. `{}` trusts the certificate authorities that Node trusts. */
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
  // Each attempt opens a new connection, because a connection that is shared with other streams of this process may
  // be broken, or may be waiting for its own retry.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
  // Connect to instances directly, not through the HTTP proxy of the environment.
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
        // The connection is broken, although it was not closed.
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

/** The connection failed, or the service is temporarily unavailable: a retry may succeed. */
export class Interruption extends Error {
  override readonly name = 'Interruption'
  /** The stable reason that the service sent; empty if the connection failed. */
  readonly reason: string

  constructor(message: string, reason = '', cause?: unknown) {
    super(message, { cause })
    this.reason = reason
  }
}

/** The service refused the subscription: a retry would not succeed. */
export class SubscriptionRefused extends Error {
  override readonly name = 'SubscriptionRefused'
  /** A gRPC code. */
  readonly code: status
  /** The stable reason: unauthorized, stale_cursor, expired_cursor, …; empty if none was sent. */
  readonly reason: string
  /** The cursor from which it is safe to resume, for stale_cursor and expired_cursor. */
  readonly cursor: string | undefined

  constructor(cause: ServiceError) {
    super(textOf(cause), { cause })
    const info = errorInfo(cause)
    this.code = cause.code
    this.reason = info?.reason ?? ''
    this.cursor = info?.metadata['cursor']
  }
}

const TRANSIENT: readonly status[] = [
  status.UNAVAILABLE,
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.INTERNAL,
  status.UNKNOWN,
  status.ABORTED,
  status.RESOURCE_EXHAUSTED,
]

/**
 * Returns the reason why an attempt ended, if a retry may succeed.
 *
 * @throws SubscriptionRefused if a retry would not succeed; the error itself if it does not come from gRPC
 */
export function toInterruption(error: unknown): Interruption {
  if (error instanceof Interruption) return error
  if (!isServiceError(error)) throw error
  if (!TRANSIENT.includes(error.code)) throw new SubscriptionRefused(error)
  return new Interruption(textOf(error), errorInfo(error)?.reason, error)
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'metadata' in error
}

/** Extracts the cause from the long text that grpc-js reports for a failed connection. */
function textOf({ details, message }: ServiceError): string {
  const cause = /Last error: (?:Error: )?(.*?)(?: \(\d{4}-[^)]*Z\))?\. Resolution note/.exec(
    details,
  )
  return cause?.[1] || details || message
}

function errorInfo(error: ServiceError): ErrorInfo | undefined {
  const [bytes] = error.metadata.get('grpc-status-details-bin')
  if (!Buffer.isBuffer(bytes)) return undefined
  try {
    for (const detail of fromBinary(StatusSchema, bytes).details) {
      const info = anyUnpack(detail, ErrorInfoSchema)
      if (info) return info
    }
  } catch {
    // Details that do not parse are ignored: the code and the text are enough.
  }
  return undefined
}

/** TLS settings, in PEM. */
export interface ClientTls {
  /** The certificate authority to trust; absent: the ones that Node trusts. */
  readonly ca?: Buffer | string | undefined
  /** The client certificate, if the service requires one, and its key. */
  readonly cert?: Buffer | string | undefined
  readonly key?: Buffer | string | undefined
}

/** The security settings of a grpc-js channel. */
export interface ChannelSecurity {
  readonly credentials: ChannelCredentials
  readonly options: Readonly<Record<string, string>>
}

/**
 * The server name (SNI) for a host that is an IP address, because SNI does not allow IP addresses
 * (RFC 6066, section 3). grpc-js 1.14 would send the address, which Node 26 rejects.
 */
const PLACEHOLDER_SERVER_NAME = 'service.invalid'

/** @param address `host:port`; the certificate must be valid for this host name or IP address */
export function secure(address: string, { ca, cert, key }: ClientTls): ChannelSecurity {
  const host = address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '')
  const named = isIP(host) === 0
  return {
    credentials: credentials.createSsl(toBuffer(ca), toBuffer(key), toBuffer(cert), {
      checkServerIdentity: (_name: string, certificate: PeerCertificate) =>
        checkServerIdentity(host, certificate),
    }),
    options: named ? {} : { 'grpc.ssl_target_name_override': PLACEHOLDER_SERVER_NAME },
  }
}

function toBuffer(pem: Buffer | string | undefined): Buffer | null {
  return pem === undefined ? null : Buffer.from(pem)
}
