import { setTimeout as wait } from 'node:timers/promises'
import {
  create,
  type DescMessage,
  fromBinary,
  isMessage,
  type Message,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf'
import { anyPack } from '@bufbuild/protobuf/wkt'
import { type ConnectError, decodeBinaryHeader, encodeBinaryHeader } from '@connectrpc/connect'
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
  type ServerUnaryCall,
  type ServerWritableStream,
  type status,
} from '@grpc/grpc-js'
import type { Logger } from 'pino'
import { StatusSchema } from '../../../gen/google/rpc/status_pb.ts'
import { assert, Fault, REASONS } from '../../core/errors.ts'
import { type CallContext, type Decoded, headersOf, type Invoker } from '../invokers.ts'
import { toConnectError, toFault } from '../status.ts'
import type { GrpcConnection, GrpcConnections } from './connections.ts'
import { REQUEST_ID, type StreamWatch } from './watch-streams.ts'

/** The parts of the server that its methods use. */
export interface MethodHost {
  readonly requestIds: () => string
  readonly log: Logger
  readonly connections: GrpcConnections
  /** The streams in progress, so that the server can end them. */
  readonly streams: Set<GrpcCallContext>
  readonly watch: Pick<StreamWatch, 'reset'>
  readonly streamStallMs: number
}

type UnaryHandler = handleUnaryCall<RequestBox, Buffer>
type StreamHandler = handleServerStreamingCall<RequestBox, Buffer>

const same = (bytes: Buffer): Buffer => bytes

/** Defines a method for grpc-js with messages as bytes, so that we turn parse errors into Faults. */
export function toMethodDefinition({
  service,
  method,
}: Invoker): MethodDefinition<RequestBox, Buffer> {
  return {
    path: `/${service.typeName}/${method.name}`,
    requestStream: false,
    responseStream: method.methodKind === 'server_streaming',
    requestSerialize: ({ bytes = Buffer.alloc(0) }) => bytes,
    requestDeserialize: (bytes) => ({ bytes }),
    responseSerialize: same,
    responseDeserialize: same,
  }
}

export function toHandler(invoker: Invoker, host: MethodHost): UnaryHandler | StreamHandler {
  const kind = invoker.method.methodKind
  if (kind === 'unary') return unaryHandler(invoker, host)
  assert(kind === 'server_streaming', `${invoker.method.name} takes one request`)
  return streamHandler(invoker, host)
}

function unaryHandler(invoker: Invoker, host: MethodHost): UnaryHandler {
  const { input, output } = invoker.method
  const decode = (bytes: Buffer) => decodeMessage(input, bytes)
  return async (rpc, callback) => {
    const requestId = host.requestIds()
    const context = new GrpcCallContext(
      rpc,
      requestId,
      host.connections.find(rpc.getPeer()),
      decode,
    )
    try {
      const response = await invoker.unary(context.decode, context)
      const bytes = asBuffer(toBinary(output, response.message as Message))
      holdResponse(rpc, bytes, context.connection)
      const header = toMetadata(headersOf(response), requestId)
      context.responded()
      rpc.sendMetadata(header)
      callback(null, bytes)
    } catch (error) {
      context.responded()
      if (!(error instanceof Fault)) logFailure(host.log, error, invoker, requestId)
      callback(toGrpcStatus(error, requestId))
    }
  }
}

/** Smaller responses are not counted: the limit of calls bounds them. */
const SMALL_RESPONSE_BYTES = 1024

/**
 * Counts the bytes of a response until its client has read it.
 *
 * @throws Fault when too many bytes wait for the client
 */
function holdResponse(
  rpc: Parameters<UnaryHandler>[0],
  { length }: Buffer,
  connection: GrpcConnection | undefined,
): void {
  if (length <= SMALL_RESPONSE_BYTES || connection === undefined) return
  const { usage } = connection
  rpc.once('cancelled', () => usage.release(length))
  if (usage.hold(length)) return
  throw new Fault('rate_limited', 'Too many responses wait to be read on this connection')
}

function streamHandler(invoker: Invoker, host: MethodHost): StreamHandler {
  const { input, output } = invoker.method
  const encode = createSharedEncoder(output)
  const decode = (bytes: Buffer) => decodeMessage(input, bytes)
  const { requestIds, log, connections, streams, watch, streamStallMs } = host
  return async (rpc) => {
    const requestId = requestIds()
    const context = new GrpcCallContext(rpc, requestId, connections.find(rpc.getPeer()), decode)
    streams.add(context)
    try {
      const response = await invoker.stream(context.decode, context)
      const failure = await sendStream(rpc, context, response.message, {
        encode,
        opened: () => rpc.sendMetadata(toMetadata(response.header, requestId)),
        reset: () => watch.reset(requestId),
        stallMs: streamStallMs,
      })
      if (failure !== undefined) logFailure(log, failure, invoker, requestId)
    } catch (error) {
      context.responded()
      if (!(error instanceof Fault)) logFailure(log, error, invoker, requestId)
      rpc.emit('error', toGrpcStatus(error, requestId))
    } finally {
      streams.delete(context)
    }
  }
}

function decodeMessage(schema: DescMessage, bytes: Buffer): Message {
  try {
    return fromBinary(schema, bytes, { readUnknownFields: false })
  } catch (cause) {
    const text = `The body is not a ${schema.typeName} in protobuf's binary form`
    throw new Fault('malformed_request', text, { cause })
  }
}

/** A view of the same memory: grpc-js copies from it. */
function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** Encodes a message once for all subscribers: the bytes live as long as the message. */
export function createSharedEncoder(
  schema: DescMessage,
): (message: MessageInitShape<DescMessage>) => Buffer {
  const known = new WeakMap<Message, Buffer>()
  return (given) => {
    const message = isMessage(given, schema) ? given : create(schema, given)
    let bytes = known.get(message)
    if (bytes === undefined) {
      const encoded = toBinary(schema, message)
      // Allocated outside of Node's buffer pool: a slice of the pool would keep its whole 64 KiB chunk alive.
      bytes = Buffer.allocUnsafeSlow(encoded.length)
      bytes.set(encoded)
      known.set(message, bytes)
    }
    return bytes
  }
}

/** Logs failures that no interceptor sees: those of an open stream, and of encoding a response. */
function logFailure(log: Logger, error: unknown, invoker: Invoker, requestId: string): void {
  const fault = toFault(error)
  const rpc = `/${invoker.service.typeName}/${invoker.method.name}`
  const record = { request_id: requestId, rpc, protocol: 'grpc', reason: fault.reason }
  if (REASONS[fault.reason][1] < 500) log.info(record, 'stream refused')
  else log.error({ ...record, error: fault.message, err: fault.cause }, 'stream failed')
}

type Rpc = ServerWritableStream<RequestBox, Buffer>

interface SendOptions<T> {
  readonly encode: (message: T) => Buffer
  /** Called before anything is sent, when the source waits for the first time. */
  readonly opened: () => void
  /** Resets the stream if the client does not even read the status. */
  readonly reset: () => void
  /** How long the client may read nothing while messages wait for it. */
  readonly stallMs: number
}

/** How long the status of an aborted stream may take to reach its client. */
const LAST_STATUS_MS = 250

/**
 * Sends the messages of a source, no faster than the client reads: the next message is pulled only
 * when grpc-js has room. If the call is aborted, this ends the source at once, even while it waits for the source or for
 * the client.
 *
 * @returns the error of the source; undefined if the stream ended or was aborted
 */
async function sendStream<T>(
  rpc: Rpc,
  context: GrpcCallContext,
  source: AsyncIterable<T>,
  { encode, opened, reset, stallMs }: SendOptions<T>,
): Promise<unknown> {
  const { signal } = context
  const iterator = source[Symbol.asyncIterator]()
  const room = createRoom(rpc, stallMs, () => {
    context.abort(new Fault('unavailable', 'The subscriber stopped reading; resume the stream'))
  })
  const release = once(() => void (async () => iterator.return?.())().catch(() => undefined))
  const end = once((status?: GrpcStatus) => {
    context.responded()
    if (status === undefined) rpc.end()
    else rpc.emit('error', status)
  })
  const onAbort = () => {
    end(toGrpcStatus(signal.reason, context.requestId))
    void wait(LAST_STATUS_MS, undefined, { ref: false }).then(reset)
    room.wake()
    release()
  }
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    if (signal.aborted) return onAbort()
    let next = iterator.next()
    opened()
    for (let item = await next; item.done !== true; item = await next) {
      if (signal.aborted) return undefined
      if (!rpc.write(encode(item.value))) await room.wait()
      if (signal.aborted) return undefined
      next = iterator.next()
    }
    end()
    return undefined
  } catch (error) {
    if (signal.aborted) return undefined
    end(toGrpcStatus(error, context.requestId))
    return error
  } finally {
    signal.removeEventListener('abort', onAbort)
    release()
  }
}

/** Waits until the call accepts more messages, or until it is woken. */
function createRoom(rpc: Rpc, stallMs: number, stalled: () => void) {
  let waiting: (() => void) | undefined
  let timer: NodeJS.Timeout | undefined
  const wake = () => {
    clearTimeout(timer)
    waiting?.()
    waiting = undefined
  }
  rpc.on('drain', wake)
  const room = () =>
    new Promise<void>((resolve) => {
      waiting = resolve
      timer = setTimeout(stalled, stallMs).unref()
    })
  return { wait: room, wake }
}

function once<A extends unknown[]>(action: (...args: A) => void): (...args: A) => void {
  let done = false
  return (...args) => {
    if (done) return
    done = true
    action(...args)
  }
}

/** The bytes of a request, in an object that can be emptied: grpc-js keeps the request while the call is open. */
interface RequestBox {
  bytes: Buffer | undefined
}

/** The part of a grpc-js call that states where it comes from. */
type PeerCall = Pick<
  ServerUnaryCall<RequestBox, Buffer> | ServerWritableStream<RequestBox, Buffer>,
  'request' | 'metadata' | 'cancelled' | 'getDeadline'
> & { on(event: 'cancelled', listener: () => void): unknown }

/**
 * The context of a gRPC call. Its getters create rarely used values only when they are read, because every call has a
 * context.
 */
class GrpcCallContext implements CallContext {
  readonly protocol = 'grpc'
  readonly requestId: string
  readonly connection: GrpcConnection | undefined
  rateLimit: CallContext['rateLimit']
  span: CallContext['span']
  readonly #rpc: PeerCall
  readonly #decodeMessage: (bytes: Buffer) => Message
  #header: Headers | undefined
  #controller: AbortController | undefined
  #fault: Fault | undefined
  #open = true

  /** @param connection undefined if it has already closed */
  constructor(
    rpc: PeerCall,
    requestId: string,
    connection: GrpcConnection | undefined,
    decodeMessage: (bytes: Buffer) => Message,
  ) {
    this.#rpc = rpc
    this.requestId = requestId
    this.connection = connection
    this.#decodeMessage = decodeMessage
  }

  get address(): string {
    return this.connection?.address ?? ''
  }

  get header(): Headers {
    this.#header ??= toHeaders(this.#rpc.metadata)
    return this.#header
  }

  get authorization(): string | null {
    const [value] = this.#rpc.metadata.get('authorization')
    return typeof value === 'string' ? value : null
  }

  get traceparent(): string | undefined {
    const [value] = this.#rpc.metadata.get('traceparent')
    return typeof value === 'string' ? value : undefined
  }

  /** Read only for a call without a token. */
  get clientUri(): string | undefined {
    return this.connection?.clientUri
  }

  /** The reason of the signal is a Fault, so that code that throws the reason gives the right status. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      this.#rpc.on('cancelled', () => this.#gone())
      // If a client half-closes the call after its deadline, the handler still runs, and grpc-js no longer
      // reports a cancellation.
      if (this.#rpc.cancelled || hasPassed(this.#rpc)) this.#gone()
      if (this.#fault !== undefined) this.#controller.abort(this.#fault)
    }
    return this.#controller.signal
  }

  /**
   * Decodes the request, once.
   *
   * @throws Fault malformed_request
   */
  readonly decode = (): Decoded => {
    const { bytes = Buffer.alloc(0) } = this.#rpc.request
    this.#rpc.request.bytes = undefined
    return { message: this.#decodeMessage(bytes) }
  }

  /** Aborts the signal with the fault as its reason, unless the call has a response. */
  abort(fault: Fault): void {
    if (!this.#open) return
    this.#open = false
    this.#fault = fault
    this.#controller?.abort(fault)
  }

  /** Marks the response as complete. grpc-js reports completion as a cancellation too. */
  responded(): void {
    this.#open = false
    this.#rpc.request.bytes = undefined
  }

  #gone(): void {
    if (!this.#open) return
    const text = hasPassed(this.#rpc)
      ? 'The deadline of the call has passed'
      : 'The caller cancelled'
    this.abort(new Fault('cancelled', text))
  }
}

function hasPassed(rpc: PeerCall): boolean {
  const deadline = rpc.getDeadline()
  return deadline !== Number.POSITIVE_INFINITY && Number(deadline) <= Date.now()
}

/** Returns the metadata of a request as headers; binary values in base64, as in Connect. */
function toHeaders(metadata: Metadata): Headers {
  const headers = new Headers()
  for (const [key, values] of Object.entries(metadata.toJSON())) {
    for (const value of values) {
      headers.append(key, typeof value === 'string' ? value : encodeBinaryHeader(value))
    }
  }
  return headers
}

/** Returns the metadata of a response: its headers and the request id. */
function toMetadata(headers: Headers | undefined, requestId: string): Metadata {
  const metadata = new Metadata()
  headers?.forEach((value, name) => {
    if (!name.endsWith('-bin')) metadata.set(name, value)
    // `Headers` joins values with commas, which base64 does not contain.
    else for (const each of value.split(',')) metadata.add(name, toBytes(each))
  })
  metadata.set(REQUEST_ID, requestId)
  return metadata
}

function toBytes(base64: string): Buffer {
  return Buffer.from(decodeBinaryHeader(base64.trim()))
}

/** The status of a failed call, as grpc-js expects it; grpc-js percent-encodes the text. */
interface GrpcStatus {
  readonly code: status
  readonly details: string
  readonly metadata: Metadata
}

/** Returns the error of a call as a status with `google.rpc` details. */
function toGrpcStatus(error: unknown, requestId: string): GrpcStatus {
  const failure = toConnectError(toFault(error), requestId)
  const metadata = new Metadata()
  metadata.set(REQUEST_ID, requestId)
  // A lone surrogate has no percent-encoding, and would make grpc-js throw.
  const text = failure.rawMessage.toWellFormed()
  metadata.set('grpc-status-details-bin', encodeStatus(failure, text))
  // Connect and gRPC use the same numbers for codes.
  return { code: failure.code as number, details: text, metadata }
}

function encodeStatus({ code, details }: ConnectError, message: string): Buffer {
  const packed = details.flatMap((detail) =>
    'desc' in detail ? anyPack(detail.desc, create(detail.desc, detail.value)) : [],
  )
  const encoded = create(StatusSchema, { code, message, details: packed })
  return Buffer.from(toBinary(StatusSchema, encoded))
}
