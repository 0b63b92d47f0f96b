import {
  create,
  type DescMessage,
  fromBinary,
  isMessage,
  type Message,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf'
import type { Logger } from 'pino'
import { assert, Fault, REASONS } from '../errors.ts'
import { type Call, headersOf } from './calls.ts'
import type { GrpcCall } from './grpc-call.ts'
import { frameMessage } from './grpc-messages.ts'
import type { GrpcMethod } from './grpc-method.ts'
import { toGrpcStatus } from './grpc-status.ts'
import { sendStream } from './grpc-stream.ts'
import { toFault } from './status.ts'

/** What the methods need from the door. */
export interface MethodHost {
  readonly log: Logger
  /** The streams under way: the door adds nothing, but may abort them. */
  readonly streams: Set<GrpcCall>
}

/** A method of ours, as gRPC calls it. */
export function toGrpcMethod(call: Call, host: MethodHost): GrpcMethod {
  const { input, methodKind, name } = call.method
  const unary = methodKind === 'unary'
  assert(unary || methodKind === 'server_streaming', `${name} takes one request`)
  return {
    path: `/${call.service.typeName}/${name}`,
    decode: (bytes) => decode(input, bytes),
    handle: unary ? unaryHandler(call, host) : streamHandler(call, host),
  }
}

function unaryHandler(call: Call, { log }: MethodHost) {
  return async (rpc: GrpcCall): Promise<void> => {
    try {
      const response = await call.unary(undefined, rpc)
      rpc.answer(toBinary(call.method.output, response.message as Message), headersOf(response))
    } catch (error) {
      if (!(error instanceof Fault)) logFailure(log, error, call, rpc.requestId)
      rpc.fail(toGrpcStatus(error, rpc.requestId))
    }
  }
}

function streamHandler(call: Call, { log, streams }: MethodHost) {
  const encodeOnce = createSharedEncoder(call.method.output)
  return async (rpc: GrpcCall): Promise<void> => {
    streams.add(rpc)
    try {
      const response = await call.stream(undefined, rpc)
      const opened = () => rpc.respond(response.header)
      const failure = await sendStream(rpc, response.message, encodeOnce, opened)
      if (failure !== undefined) logFailure(log, failure, call, rpc.requestId)
    } catch (error) {
      if (!(error instanceof Fault)) logFailure(log, error, call, rpc.requestId)
      rpc.fail(toGrpcStatus(error, rpc.requestId))
    } finally {
      streams.delete(rpc)
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
export function createSharedEncoder(
  schema: DescMessage,
): (message: MessageInitShape<DescMessage>) => Buffer {
  const known = new WeakMap<Message, Buffer>()
  return (given) => {
    const message = isMessage(given, schema) ? given : create(schema, given)
    let framed = known.get(message)
    if (framed === undefined) {
      framed = frameMessage(toBinary(schema, message))
      known.set(message, framed)
    }
    return framed
  }
}

/** Logs what no interceptor sees: a stream that fails under way, an answer that does not encode. */
function logFailure(log: Logger, error: unknown, call: Call, requestId: string): void {
  const fault = toFault(error)
  const rpc = `/${call.service.typeName}/${call.method.name}`
  const record = { request_id: requestId, rpc, door: 'grpc', reason: fault.reason }
  if (REASONS[fault.reason][1] < 500) log.info(record, 'stream refused')
  else log.error({ ...record, err: fault.cause }, fault.message)
}
