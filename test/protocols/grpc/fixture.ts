import { type ClientHttp2Stream, connect } from 'node:http2'
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
import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { type GrpcServer, openGrpcServer } from '../../../src/server/grpc/server.ts'
import { createCheck, validation } from '../../../src/server/interceptors/validation.ts'
import { createInvokers, implement } from '../../../src/server/rpc/invokers.ts'

interface Implementations {
  readonly transactions?: Partial<ServiceImpl<typeof TransactionService>>
  readonly events?: Partial<ServiceImpl<typeof EventService>>
  readonly interceptors?: readonly Interceptor[]
  readonly reflection?: boolean
  readonly options?: Pick<Parameters<typeof openGrpcServer>[0], 'grpcLimits' | 'proxies'>
}

export interface TestServer {
  readonly server: GrpcServer
  readonly address: string
  /** What was logged, parsed. */
  readonly logged: Record<string, unknown>[]
}

/** A server with the given implementations behind validation, on a free port. */
export async function openTestServer(given: Implementations): Promise<TestServer> {
  const logged: Record<string, unknown>[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => logged.push(JSON.parse(line)) })
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
      `/${method.parent.typeName}/${method.name}`,
      (message: Buffer) => message,
      (bytes) => fromBinary(method.output, bytes) as MessageShape<M['output']>,
      toBytes(method, request),
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

/** One stream, opened; errors are left to its 'status' event. */
export function callStream<M extends DescMethod>(
  client: Client,
  method: M,
  request: MessageInitShape<M['input']> | Buffer,
  options: CallOptions = {},
  metadata = new Metadata(),
): ClientReadableStream<MessageShape<M['output']>> {
  const call = client.makeServerStreamRequest(
    `/${method.parent.typeName}/${method.name}`,
    (message: Buffer) => message,
    (bytes) => fromBinary(method.output, bytes) as MessageShape<M['output']>,
    toBytes(method, request),
    metadata,
    options,
  )
  call.on('error', () => undefined)
  return call
}

/** A call of Node's own HTTP/2: unlike clients of grpc-js, it reads only on request. */
export function openRawCall<M extends DescMethod>(
  address: string,
  method: M,
  request: MessageInitShape<M['input']>,
): ClientHttp2Stream {
  const session = connect(`http://${address}`)
  session.on('error', () => undefined)
  onTestFinished(() => session.destroy())
  const stream = session.request({
    ':method': 'POST',
    ':path': `/${method.parent.typeName}/${method.name}`,
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  stream.on('error', () => undefined)
  const body = toBytes(method, request)
  const head = Buffer.alloc(5)
  head.writeUInt32BE(body.length, 1)
  stream.end(Buffer.concat([head, body]))
  return stream
}

export function statusOf(call: ClientReadableStream<unknown>): Promise<StatusObject> {
  return new Promise((resolve) => call.once('status', resolve))
}

function toBytes(method: DescMethod, request: MessageInitShape<DescMethod['input']> | Buffer) {
  if (Buffer.isBuffer(request)) return request
  return Buffer.from(toBinary(method.input, create(method.input, request)))
}
