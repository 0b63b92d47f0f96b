import { type ClientHttp2Session, type ClientHttp2Stream, connect, type Settings } from 'node:http2'
import {
  create,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import type { Interceptor, ServiceImpl } from '@connectrpc/connect'
import {
  type CallOptions,
  Client,
  type ClientOptions,
  type ClientReadableStream,
  credentials,
  Metadata,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js'
import { onTestFinished } from 'vitest'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { type GrpcServer, openGrpcServer } from '../../../src/server/grpc/server.ts'
import { createCheck, validation } from '../../../src/server/interceptors/validation.ts'
import { createInvokers, implement } from '../../../src/server/invokers.ts'
import { captureLog } from '../../support/captured-log.ts'
import { pathOf } from '../matrix/protocols.ts'
import { framed } from './http2-frames.ts'

interface Implementations {
  readonly transactions?: Partial<ServiceImpl<typeof TransactionService>>
  readonly events?: Partial<ServiceImpl<typeof EventService>>
  readonly interceptors?: readonly Interceptor[]
  readonly reflection?: boolean
  readonly options?: Pick<Parameters<typeof openGrpcServer>[0], 'grpcLimits' | 'isProxy'>
}

export interface TestServer {
  readonly server: GrpcServer
  readonly address: string
  /** What was logged, parsed. */
  readonly logged: Record<string, unknown>[]
}

/** A server with the given implementations behind validation, on a free port. */
export async function openTestServer(given: Implementations): Promise<TestServer> {
  const { log, lines: logged } = captureLog()
  let count = 0
  const invokers = createInvokers(
    [
      implement(TransactionService, given.transactions as ServiceImpl<typeof TransactionService>),
      implement(EventService, given.events as ServiceImpl<typeof EventService>),
    ].map(({ service, methods }) => ({ service, methods: methods ?? {} })),
    {
      beforeDecoding: given.interceptors ?? [],
      afterDecoding: given.interceptors ? [] : [validation(createCheck())],
    },
  )
  const server = await openGrpcServer({
    invokers,
    host: '127.0.0.1',
    port: 0,
    reflection: given.reflection ?? true,
    requestIds: () => `req_${++count}`,
    log,
    limits: { connectionsMax: 1_000, connectionsPerAddressMax: 1_000 },
    ...given.options,
  })
  onTestFinished(() => server.close(0).then(() => undefined))
  return { server, address: `127.0.0.1:${server.port}`, logged }
}

/** A client of grpc-js with protobuf-es codecs. */
export function openClient(address: string, options: ClientOptions = {}): Client {
  const client = new Client(address, credentials.createInsecure(), options)
  onTestFinished(() => client.close())
  return client
}

export function metadataOf(entries: Record<string, string | Buffer>): Metadata {
  const metadata = new Metadata()
  for (const [key, value] of Object.entries(entries)) metadata.set(key, value)
  return metadata
}

interface UnaryResult<M> {
  readonly message?: M
  readonly error?: ServiceError
  readonly header?: Metadata
}

/** One unary call, settled either way. */
export function callUnary<M extends DescMethod>(
  client: Client,
  method: M,
  request: MessageInitShape<M['input']> | Buffer,
  metadata = new Metadata(),
  options: CallOptions = {},
): Promise<UnaryResult<MessageShape<M['output']>>> {
  return new Promise((resolve) => {
    let header: Metadata | undefined
    const call = client.makeUnaryRequest(
      ...codecsOf(method, request),
      metadata,
      options,
      (error, message) =>
        resolve({ ...(error ? { error } : { message: message! }), ...(header && { header }) }),
    )
    call.on('metadata', (received: Metadata) => {
      header = received
    })
  })
}

/** What grpc-js needs to make a call: the path, the codecs and the request. */
const codecsOf = <M extends DescMethod>(
  method: M,
  request: MessageInitShape<M['input']> | Buffer,
) =>
  [
    pathOf(method),
    (message: Buffer) => message,
    (bytes: Buffer) => fromBinary(method.output, bytes) as MessageShape<M['output']>,
    toBytes(method, request),
  ] as const

/** One stream, opened; errors are left to its 'status' event. */
export function callStream<M extends DescMethod>(
  client: Client,
  method: M,
  request: MessageInitShape<M['input']> | Buffer,
  options: CallOptions = {},
  metadata = new Metadata(),
): ClientReadableStream<MessageShape<M['output']>> {
  const call = client.makeServerStreamRequest(...codecsOf(method, request), metadata, options)
  call.on('error', () => undefined)
  return call
}

/** A connection of Node's own HTTP/2. */
export function openSession(address: string, settings: Settings = {}): ClientHttp2Session {
  const session = connect(`http://${address}`, { settings })
  session.on('error', () => undefined)
  onTestFinished(() => session.destroy())
  return session
}

/** The headers of a call; its body is the caller's. Errors are left to its 'close' event. */
export function beginCall(
  session: ClientHttp2Session,
  path: string,
  more: Readonly<Record<string, string>> = {},
): ClientHttp2Stream {
  const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', ...more }
  return session.request(headers).on('error', () => undefined)
}

/** Sends a body, if any. @returns all headers and trailers that came, as one, and how the stream ended */
export async function answerOf(
  stream: ClientHttp2Stream,
  body?: Buffer,
): Promise<Record<string, unknown>> {
  const seen: Record<string, unknown> = {}
  stream.on('response', (headers) => Object.assign(seen, headers))
  stream.on('trailers', (trailers) => Object.assign(seen, trailers))
  stream.resume().end(body)
  await new Promise((resolve) => stream.once('close', resolve))
  return { ...seen, reset: stream.rstCode }
}

/** A call of Node's own HTTP/2: unlike clients of grpc-js, it reads only on request. */
export function openRawCall<M extends DescMethod>(
  address: string,
  method: M,
  request: MessageInitShape<M['input']>,
): ClientHttp2Stream {
  const path = pathOf(method)
  const stream = beginCall(openSession(address), path, { te: 'trailers' })
  stream.end(framed(toBytes(method, request)))
  return stream
}

export function statusOf(call: ClientReadableStream<unknown>): Promise<StatusObject> {
  return new Promise((resolve) => call.once('status', resolve))
}

function toBytes(method: DescMethod, request: MessageInitShape<DescMethod['input']> | Buffer) {
  if (Buffer.isBuffer(request)) return request
  return Buffer.from(toBinary(method.input, create(method.input, request)))
}
