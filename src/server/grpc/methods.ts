import {
  create,
  type DescMessage,
  fromBinary,
  isMessage,
  type Message,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf'
import type { handleServerStreamingCall, handleUnaryCall, MethodDefinition } from '@grpc/grpc-js'
import type { Logger } from 'pino'
import { assert, Fault, REASONS } from '../../core/errors.ts'
import { headersOf, type Invoker } from '../rpc/invokers.ts'
import { toFault } from '../rpc/status.ts'
import { GrpcCallContext, type RequestBox } from './call-context.ts'
import type { GrpcConnection } from './connection.ts'
import type { GrpcConnections } from './connections.ts'
import { toMetadata } from './metadata.ts'
import { sendStream } from './send-stream.ts'
import { toGrpcStatus } from './status.ts'
import type { StreamWatch } from './watch-streams.ts'

/** What the methods need from the server. */
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

/** A method of grpc-js that carries bytes: what does not parse must become a fault of ours. */
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

export function toHandler(call: Invoker, host: MethodHost): UnaryHandler | StreamHandler {
  const kind = call.method.methodKind
  if (kind === 'unary') return unaryHandler(call, host)
  assert(kind === 'server_streaming', `${call.method.name} takes one request`)
  return streamHandler(call, host)
}

function unaryHandler(call: Invoker, host: MethodHost): UnaryHandler {
  const { input, output } = call.method
  const decode = (bytes: Buffer) => decodeMessage(input, bytes)
  return async (rpc, callback) => {
    const requestId = host.requestIds()
    const origin = new GrpcCallContext(rpc, requestId, host.connections.find(rpc.getPeer()), decode)
    try {
      const response = await call.unary(origin.decode, origin)
      const bytes = asBuffer(toBinary(output, response.message as Message))
      holdAnswer(rpc, bytes, origin.connection)
      const header = toMetadata(headersOf(response), requestId)
      origin.answered()
      rpc.sendMetadata(header)
      callback(null, bytes)
    } catch (error) {
      origin.answered()
      if (!(error instanceof Fault)) logFailure(host.log, error, call, requestId)
      callback(toGrpcStatus(error, requestId))
    }
  }
}

/** Answers smaller than this are bounded by the number of calls. */
const SMALL_ANSWER_BYTES = 1024

/**
 * Counts an answer until its client takes it.
 *
 * @throws Fault when too much waits for the client already
 */
function holdAnswer(
  rpc: Parameters<UnaryHandler>[0],
  { length }: Buffer,
  connection: GrpcConnection | undefined,
): void {
  if (length <= SMALL_ANSWER_BYTES || connection === undefined) return
  const { usage } = connection
  rpc.once('cancelled', () => usage.release(length))
  if (usage.hold(length)) return
  throw new Fault('rate_limited', 'Too many answers wait to be read on this connection')
}

function streamHandler(call: Invoker, host: MethodHost): StreamHandler {
  const { input, output } = call.method
  const encode = createSharedEncoder(output)
  const decode = (bytes: Buffer) => decodeMessage(input, bytes)
  const { requestIds, log, connections, streams, watch, streamStallMs } = host
  return async (rpc) => {
    const requestId = requestIds()
    const origin = new GrpcCallContext(rpc, requestId, connections.find(rpc.getPeer()), decode)
    streams.add(origin)
    try {
      const response = await call.stream(origin.decode, origin)
      const failure = await sendStream(rpc, origin, response.message, {
        encode,
        opened: () => rpc.sendMetadata(toMetadata(response.header, requestId)),
        reset: () => watch.reset(requestId),
        stallMs: streamStallMs,
      })
      if (failure !== undefined) logFailure(log, failure, call, requestId)
    } catch (error) {
      origin.answered()
      if (!(error instanceof Fault)) logFailure(log, error, call, requestId)
      rpc.emit('error', toGrpcStatus(error, requestId))
    } finally {
      streams.delete(origin)
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

/** The same memory, as grpc-js copies from it. */
function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** Many subscribers are sent the very same message: its bytes are kept as long as it is. */
export function createSharedEncoder(
  schema: DescMessage,
): (message: MessageInitShape<DescMessage>) => Buffer {
  const known = new WeakMap<Message, Buffer>()
  return (given) => {
    const message = isMessage(given, schema) ? given : create(schema, given)
    let bytes = known.get(message)
    if (bytes === undefined) {
      const encoded = toBinary(schema, message)
      // Memory of its own: a part of Node's pool would keep the 64 KiB around it for as long.
      bytes = Buffer.allocUnsafeSlow(encoded.length)
      bytes.set(encoded)
      known.set(message, bytes)
    }
    return bytes
  }
}

/** Logs what no interceptor sees: a stream that fails in progress, an answer that does not encode. */
function logFailure(log: Logger, error: unknown, call: Invoker, requestId: string): void {
  const fault = toFault(error)
  const rpc = `/${call.service.typeName}/${call.method.name}`
  const record = { request_id: requestId, rpc, protocol: 'grpc', reason: fault.reason }
  if (REASONS[fault.reason][1] < 500) log.info(record, 'stream refused')
  else log.error({ ...record, err: fault.cause }, fault.message)
}
