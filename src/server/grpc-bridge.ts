import {
  create,
  type DescMessage,
  fromBinary,
  isMessage,
  type Message,
  type MessageInitShape,
} from '@bufbuild/protobuf'
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type MethodDefinition,
} from '@grpc/grpc-js'
import type { Logger } from 'pino'
import { assert, Fault, REASONS } from '../errors.ts'
import { compileWireEncoder } from '../wire.ts'
import { type Call, headersOf } from './calls.ts'
import type { ClientUri } from './grpc-listener.ts'
import { GrpcOrigin } from './grpc-origin.ts'
import { REQUEST_ID, toGrpcStatus } from './grpc-status.ts'
import { sendStream } from './grpc-stream.ts'
import { toFault } from './status.ts'

/** What the bridge needs from the door. */
export interface Bridge {
  readonly requestIds: () => string
  readonly log: Logger
  /** The streams under way: the door adds nothing, but may abort them. */
  readonly streams: Set<GrpcOrigin>
  readonly clientUri: ClientUri
}

type UnaryHandler = handleUnaryCall<Buffer, Buffer>
type StreamHandler = handleServerStreamingCall<Buffer, Buffer>

/** A method of grpc-js that carries bytes: what does not parse must become a fault of ours. */
export function toMethodDefinition({ service, method }: Call): MethodDefinition<Buffer, Buffer> {
  const same = (bytes: Buffer) => bytes
  return {
    path: `/${service.typeName}/${method.name}`,
    requestStream: false,
    responseStream: method.methodKind === 'server_streaming',
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  }
}

/** The handler of a method. */
export function toHandler(call: Call, bridge: Bridge): UnaryHandler | StreamHandler {
  const kind = call.method.methodKind
  if (kind === 'unary') return unaryHandler(call, bridge)
  assert(kind === 'server_streaming', `${call.method.name} takes one request`)
  return streamHandler(call, bridge)
}

function unaryHandler(call: Call, { requestIds, log, clientUri }: Bridge): UnaryHandler {
  const { input, output } = call.method
  const encode = compileWireEncoder(output)
  return async (rpc, callback) => {
    const requestId = requestIds()
    const origin = new GrpcOrigin(rpc, requestId, clientUri, () => decode(input, rpc.request))
    try {
      const response = await call.unary(undefined, origin)
      const bytes = encode(response.message as Message)
      const header = toMetadata(headersOf(response), requestId)
      origin.answered()
      rpc.sendMetadata(header)
      callback(null, bytes)
    } catch (error) {
      origin.answered()
      if (!(error instanceof Fault)) logFailure(log, error, call, requestId)
      callback(toGrpcStatus(error, requestId))
    }
  }
}

function streamHandler(call: Call, { requestIds, log, streams, clientUri }: Bridge): StreamHandler {
  const { input, output } = call.method
  const encodeOnce = createSharedEncoder(output)
  return async (rpc) => {
    const requestId = requestIds()
    const origin = new GrpcOrigin(rpc, requestId, clientUri, () => decode(input, rpc.request))
    streams.add(origin)
    try {
      const response = await call.stream(undefined, origin)
      const opened = () => rpc.sendMetadata(toMetadata(response.header, requestId))
      const failure = await sendStream(rpc, origin, response.message, encodeOnce, opened)
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

function decode(schema: DescMessage, bytes: Buffer): Message {
  try {
    return fromBinary(schema, bytes, { readUnknownFields: false })
  } catch (cause) {
    const text = `The body is not a ${schema.typeName} in protobuf's binary form`
    throw new Fault('malformed_request', text, { cause })
  }
}

/** Many subscribers are sent the very same message: its bytes are kept as long as it is. */
function createSharedEncoder(
  schema: DescMessage,
): (message: MessageInitShape<DescMessage>) => Buffer {
  const encode = compileWireEncoder(schema)
  const known = new WeakMap<Message, Buffer>()
  return (given) => {
    const message = isMessage(given, schema) ? given : create(schema, given)
    let bytes = known.get(message)
    if (bytes === undefined) {
      bytes = encode(message)
      known.set(message, bytes)
    }
    return bytes
  }
}

function toMetadata(headers: Headers | undefined, requestId: string): Metadata {
  const metadata = new Metadata()
  headers?.forEach((value, name) => {
    if (!name.endsWith('-bin')) metadata.set(name, value)
  })
  metadata.set(REQUEST_ID, requestId)
  return metadata
}

/** Logs what no interceptor sees: a stream that fails under way, an answer that does not encode. */
function logFailure(log: Logger, error: unknown, call: Call, requestId: string): void {
  const fault = toFault(error)
  const rpc = `/${call.service.typeName}/${call.method.name}`
  const record = { request_id: requestId, rpc, door: 'grpc', reason: fault.reason }
  if (REASONS[fault.reason][1] < 500) log.info(record, 'stream refused')
  else log.error({ ...record, err: fault.cause }, fault.message)
}
