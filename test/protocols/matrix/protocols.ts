import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type JsonValue,
  type Message,
  type MessageInitShape,
  toBinary,
  toJson,
} from '@bufbuild/protobuf'
import { ConnectError, type Transport } from '@connectrpc/connect'
import { findTrailerError } from '@connectrpc/connect/protocol-grpc'
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from '@connectrpc/connect-node'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from '../../../gen/google/rpc/error_details_pb.ts'
import { REASONS, type Reason } from '../../../src/core/errors.ts'
import { restPath, SERVICES } from '../../../src/protobuf/contract-services.ts'
import { send, type WireAnswer } from '../rest/rest.ts'

/** What a call came to, in a form in which the protocols can be compared. */
export type Outcome =
  | { readonly messages: readonly JsonValue[] }
  | {
      readonly code: string
      readonly reason: string
      readonly message: string
      readonly violations: readonly { field: string; message: string }[]
      readonly retryAfterSeconds: number | undefined
    }

/** Where an instance listens. */
export interface Addresses {
  readonly httpUrl: string
  readonly grpcUrl: string
}

export interface ProtocolCall {
  readonly method: DescMethod
  readonly request: MessageInitShape<DescMessage>
  /** Undefined: no credential. */
  readonly authorization: string | undefined
  /** How many messages of a stream to wait for. */
  readonly take?: number
}

export type Protocol = (at: Addresses, call: ProtocolCall) => Promise<Outcome>

/** Every method in gen/, so that a new one is in every matrix at once. */
export async function allMethods(): Promise<DescMethod[]> {
  const methods = SERVICES.flatMap((service) => service.methods)
  // A new epoch comes last: the banks are asked about all waiting payouts then, which changes how these read.
  return [...methods.filter((each) => !isBump(each)), ...methods.filter(isBump)]
}

const isBump = (method: DescMethod) => nameOf(method) === 'EventService.BumpEpoch'

/** `AccountService.CreateAccount` */
export function nameOf(method: DescMethod): string {
  return `${method.parent.name}.${method.name}`
}

/** The path of a method in gRPC, gRPC-Web and Connect. */
export const pathOf = ({ parent, name }: DescMethod) => `/${parent.typeName}/${name}`

export const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  'gRPC from connect-node': byTransport(({ grpcUrl }) => createGrpcTransport({ baseUrl: grpcUrl })),
  'gRPC from grpc-js': byGrpcJs(),
  'Connect in JSON': byTransport(({ httpUrl }) =>
    createConnectTransport({ baseUrl: httpUrl, httpVersion: '1.1', useBinaryFormat: false }),
  ),
  'Connect in binary': byTransport(({ httpUrl }) =>
    createConnectTransport({ baseUrl: httpUrl, httpVersion: '1.1', useBinaryFormat: true }),
  ),
  'gRPC-Web': byTransport(({ httpUrl }) =>
    createGrpcWebTransport({ baseUrl: httpUrl, httpVersion: '1.1' }),
  ),
}

/** The sixth protocol, of methods with a path. */
export const REST: Protocol = async ({ httpUrl }, { method, request, authorization }) => {
  const answer = await sendRest(httpUrl, method, request, authorization)
  const body = JSON.parse(answer.text)
  if (answer.status === 200) return { messages: [body] }
  const retry = answer.headers['retry-after']
  return {
    code: REASONS[body.code as Reason][0],
    reason: body.code,
    message: body.message,
    violations: body.errors ?? [],
    retryAfterSeconds: retry === undefined ? undefined : Number(retry),
  }
}

/** @param authorization undefined: no credential */
export function sendRest(
  httpUrl: string,
  method: DescMethod,
  request: MessageInitShape<DescMessage>,
  authorization: string | undefined,
): Promise<WireAnswer> {
  return send(httpUrl, {
    path: `${restPath(method)}/`,
    headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
    body: JSON.stringify(toRestJson(method.input, create(method.input, request))),
  })
}

/** Every protocol that serves a method, by name. */
export function protocolsOf(method: DescMethod): [string, Protocol][] {
  const protocols: [string, Protocol][] = Object.entries(PROTOCOLS)
  if (restPath(method) !== undefined) protocols.push(['REST', REST])
  return protocols
}

/**
 * The first protocol and one of the others, in turn, where all protocols do the same: before a release, with
 * MATRIX=full, all of them.
 */
export function inTurn<T>(protocols: readonly T[], turn: number): readonly T[] {
  if (process.env['MATRIX'] === 'full') return protocols
  const [first, ...others] = protocols
  return [first!, others[turn % others.length]!]
}

/** One protocol, in turn, where the protocol plays no part: with MATRIX=full, all of them. */
export function oneInTurn<T>(protocols: readonly T[], turn: number): readonly T[] {
  return process.env['MATRIX'] === 'full' ? protocols : [protocols[turn % protocols.length]!]
}

/** int64 as a number: REST requests are flat objects of texts and numbers. */
function toRestJson(schema: DescMessage, message: Message): JsonValue {
  const json = toJson(schema, message) as Record<string, JsonValue>
  for (const field of schema.fields) {
    if (field.fieldKind !== 'scalar' || typeof json[field.jsonName] !== 'string') continue
    if (field.scalar === 3) json[field.jsonName] = Number(json[field.jsonName])
  }
  return json
}

/** Only for a call that would never end. */
const LIMIT_MS = 120_000

function byTransport(open: (at: Addresses) => Transport): Protocol {
  // One for each service, as a transport keeps its connection open.
  const transports = new Map<string, Transport>()
  return async (at, { method, request, authorization, take = 1 }) => {
    const transport = transports.get(at.grpcUrl) ?? open(at)
    transports.set(at.grpcUrl, transport)
    const headers = authorization === undefined ? {} : { authorization }
    try {
      if (method.methodKind === 'unary') {
        const answer = await transport.unary(method as never, undefined, LIMIT_MS, headers, request)
        return { messages: [show(method, answer.message)] }
      }
      const cancel = new AbortController()
      const single = (async function* () {
        yield request as never
      })()
      const stream = await transport.stream(
        method as never,
        cancel.signal,
        LIMIT_MS,
        headers,
        single,
      )
      const messages: JsonValue[] = []
      for await (const message of stream.message) {
        messages.push(show(method, message))
        if (messages.length === take) break
      }
      cancel.abort()
      return { messages }
    } catch (error) {
      return toOutcome(ConnectError.from(error))
    }
  }
}

function byGrpcJs(): Protocol {
  const clients = new Map<string, Client>()
  return ({ grpcUrl }, { method, request, authorization, take = 1 }) => {
    const client =
      clients.get(grpcUrl) ?? new Client(new URL(grpcUrl).host, credentials.createInsecure())
    clients.set(grpcUrl, client)
    const metadata = new Metadata()
    if (authorization !== undefined) metadata.set('authorization', authorization)
    const path = pathOf(method)
    const write = () => Buffer.from(toBinary(method.input, create(method.input, request)))
    const read = (bytes: Buffer) => show(method, fromBinary(method.output, bytes))
    if (method.methodKind === 'unary') {
      return new Promise((resolve) => {
        client.makeUnaryRequest(path, write, read, null, metadata, (error, answer) =>
          resolve(error ? fromServiceError(error) : { messages: [answer as JsonValue] }),
        )
      })
    }
    return new Promise((resolve) => {
      const messages: JsonValue[] = []
      const stream = client.makeServerStreamRequest(path, write, read, null, metadata)
      stream.on('data', (message: JsonValue) => {
        messages.push(message)
        if (messages.length === take) stream.cancel()
      })
      stream.on('error', (error: ServiceError) =>
        resolve(messages.length >= take ? { messages } : fromServiceError(error)),
      )
    })
  }
}

function show({ output }: DescMethod, message: Message): JsonValue {
  return toJson(output, message, { alwaysEmitImplicit: true })
}

function fromServiceError(error: ServiceError): Outcome {
  const headers = new Headers({
    'grpc-status': `${error.code}`,
    'grpc-message': encodeURIComponent(error.details),
  })
  const [details] = error.metadata.get('grpc-status-details-bin')
  if (details) headers.set('grpc-status-details-bin', Buffer.from(details).toString('base64'))
  return toOutcome(findTrailerError(headers) ?? ConnectError.from(error))
}

/** `google.rpc` details, read as a client reads them. */
export function toOutcome(error: ConnectError): Outcome {
  const [info] = error.findDetails(ErrorInfoSchema)
  const [bad] = error.findDetails(BadRequestSchema)
  const [retry] = error.findDetails(RetryInfoSchema)
  if (info && !/^req_[0-9a-z]{24,}$/.test(info.metadata['request_id'] ?? '')) {
    throw new Error('an error names the request')
  }
  const seconds = retry?.retryDelay?.seconds
  return {
    // Connect and gRPC use the same numbers for codes.
    code: status[error.code] ?? `${error.code}`,
    reason: info?.domain === 'inflow' ? info.reason : '',
    message: error.rawMessage,
    violations: (bad?.fieldViolations ?? []).map(({ field, description }) => ({
      field,
      message: description,
    })),
    retryAfterSeconds: seconds === undefined ? undefined : Number(seconds),
  }
}
