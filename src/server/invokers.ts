import type { IncomingHttpHeaders } from 'node:http'
import { create, type DescMethod, type DescService, type Message } from '@bufbuild/protobuf'
import {
  type ContextKey,
  type ContextValues,
  createContextValues,
  type HandlerContext,
  type Interceptor,
  type ServiceImpl,
  type StreamRequest,
  type StreamResponse,
  type UnaryRequest,
  type UnaryResponse,
} from '@connectrpc/connect'
import { type CallSource, callSourceKey } from '../auth/caller.ts'
import type { Fault, FieldFault } from '../core/errors.ts'
import type { Span } from '../core/tracing.ts'

/** A request message, with the faults of its fields that could not be decoded. */
export interface Decoded {
  readonly message: Message
  readonly fieldFaults?: readonly FieldFault[]
}

/**
 * Reads and decodes the body. Called at most once, and only after the caller is authenticated, so that unauthenticated
 * callers cost no parsing.
 *
 * @throws Fault if the body cannot be decoded as the request message
 */
type Decode = () => Decoded | Promise<Decoded>

/** One method behind its interceptors, for every protocol. */
export interface Invoker {
  readonly service: DescService
  readonly method: DescMethod
  /** Handles a unary call. Rejects with a Fault. */
  unary(decode: Decode, context: CallContext): Promise<UnaryResponse>
  /** Handles a server-streaming call. Rejects with a Fault; the stream may also throw a Fault. */
  stream(decode: Decode, context: CallContext): Promise<StreamResponse>
}

/** A service and its implementation. */
export interface Implementation {
  readonly service: DescService
  readonly methods: Readonly<Record<string, unknown>>
}

export function implement<S extends DescService>(service: S, methods: ServiceImpl<S>) {
  return { service, methods } as Implementation
}

/** The interceptors of a call, in the order in which they run. */
export interface Pipeline {
  readonly beforeDecoding: readonly Interceptor[]
  readonly afterDecoding: readonly Interceptor[]
}

type Handler = (message: unknown, context: HandlerContext) => unknown

type Stage = ReturnType<Interceptor>

/** Binds every method of the services to its implementation, behind the interceptors. */
export function createInvokers(
  implementations: readonly Implementation[],
  { beforeDecoding, afterDecoding }: Pipeline,
): readonly Invoker[] {
  return implementations.flatMap(({ service, methods }) =>
    service.methods.map((method) => {
      const handler = methods[method.localName] as Handler
      const handle = method.methodKind === 'unary' ? handleUnary(handler) : handleStream(handler)
      const check = intercept(afterDecoding, handle as Stage)
      return bind(service, method, intercept(beforeDecoding, decoding(check)))
    }),
  )
}

function intercept(interceptors: readonly Interceptor[], innermost: Stage): Stage {
  return interceptors.reduceRight((next, interceptor) => interceptor(next), innermost)
}

/** The stage that decodes unary requests. The message of a stream is decoded when it is pulled. */
function decoding(next: Stage): Stage {
  return (request) => {
    const pending = request instanceof UnaryCall ? request.decode() : undefined
    return pending === undefined ? next(request) : pending.then(() => next(request))
  }
}

function bind(service: DescService, method: DescMethod, run: Stage): Invoker {
  const url = `/${service.typeName}/${method.name}`
  return {
    service,
    method,
    unary: (decode, context) =>
      run(new UnaryCall(service, method, url, decode, context)) as Promise<UnaryResponse>,
    stream: (decode, context) => {
      const { signal, header } = context
      const contextValues = createContextValues().set(callContextKey, context)
      const request = { service, method, url, signal, header, contextValues }
      const many = { ...request, stream: true, requestMethod: 'POST', message: decodedOnce(decode) }
      return run(many as StreamRequest) as Promise<StreamResponse>
    },
  }
}

/** A unary request whose signal and headers are created only when they are read. */
class UnaryCall implements UnaryRequest {
  readonly stream = false
  readonly requestMethod = 'POST'
  readonly service: DescService
  readonly method: UnaryRequest['method']
  readonly url: string
  readonly contextValues: ContextValues
  /** Set by the decoding stage. */
  message = undefined as unknown as UnaryRequest['message']
  fieldFaults: readonly FieldFault[] | undefined
  readonly #decode: Decode
  readonly #context: CallContext

  constructor(
    service: DescService,
    method: DescMethod,
    url: string,
    decode: Decode,
    context: CallContext,
  ) {
    this.service = service
    this.method = method as UnaryRequest['method']
    this.url = url
    this.contextValues = createContextValues().set(callContextKey, context)
    this.#decode = decode
    this.#context = context
  }

  get signal(): AbortSignal {
    return this.#context.signal
  }

  get header(): Headers {
    return this.#context.header
  }

  /** @returns undefined if the body had already arrived, so that most calls do not wait */
  decode(): Promise<void> | undefined {
    const decoded = this.#decode()
    if (decoded instanceof Promise) return decoded.then((late) => this.#take(late))
    this.#take(decoded)
    return undefined
  }

  #take({ message, fieldFaults }: Decoded): void {
    this.message = message as UnaryRequest['message']
    this.fieldFaults = fieldFaults
  }
}

/** The fields of a decoded request that could not be read. */
export function fieldFaultsOf(request: UnaryRequest): readonly FieldFault[] {
  return (request instanceof UnaryCall && request.fieldFaults) || []
}

async function* decodedOnce(decode: Decode): AsyncGenerator<Message> {
  yield (await decode()).message
}

function handleUnary(handler: Handler) {
  return async (request: UnaryRequest): Promise<UnaryResponse> => {
    const context = new InvocationContext(request)
    const message = (await handler(request.message, context)) as never
    return new RpcResponse(request, context, create(request.method.output, message))
  }
}

function handleStream(handler: Handler) {
  return async (request: StreamRequest): Promise<StreamResponse> => {
    const context = new InvocationContext(request)
    for await (const message of request.message) {
      const stream = handler(message, context) as AsyncIterable<Message>
      return {
        stream: true,
        service: request.service,
        method: request.method,
        header: context.responseHeader,
        trailer: context.responseTrailer,
        message: stream,
      }
    }
    throw new Error('a server-streaming call has one request message')
  }
}

/** Connect's handler context, whose headers are created only when they are read. */
class InvocationContext implements HandlerContext {
  readonly method: DescMethod
  readonly service: DescService
  readonly requestMethod: string
  readonly values: ContextValues
  readonly url: string
  readonly protocolName: string
  readonly #request: UnaryRequest | StreamRequest
  #header: Headers | undefined
  #trailer: Headers | undefined

  constructor(request: UnaryRequest | StreamRequest) {
    this.method = request.method
    this.service = request.service
    this.#request = request
    this.requestMethod = request.requestMethod
    this.values = request.contextValues
    this.url = request.url
    this.protocolName = request.contextValues.get(callContextKey)?.protocol ?? 'grpc'
  }

  get signal(): AbortSignal {
    return this.#request.signal
  }

  get requestHeader(): Headers {
    return this.#request.header
  }

  timeoutMs(): undefined {
    return undefined
  }

  get responseHeader(): Headers {
    this.#header ??= new Headers()
    return this.#header
  }

  get responseTrailer(): Headers {
    this.#trailer ??= new Headers()
    return this.#trailer
  }

  /** The headers that the implementation set; undefined: none. */
  get headerSet(): Headers | undefined {
    return this.#header
  }
}

/** A unary response without headers until an implementation sets one. */
class RpcResponse implements UnaryResponse {
  readonly stream = false
  readonly service: DescService
  readonly method: UnaryRequest['method']
  readonly message: UnaryResponse['message']
  readonly #context: InvocationContext

  constructor(
    request: UnaryRequest,
    context: InvocationContext,
    message: UnaryResponse['message'],
  ) {
    this.service = request.service
    this.method = request.method
    this.message = message
    this.#context = context
  }

  get header(): Headers {
    return this.#context.responseHeader
  }

  get trailer(): Headers {
    return this.#context.responseTrailer
  }

  /** The headers that the implementation set; undefined: none. */
  get headerSet(): Headers | undefined {
    return this.#context.headerSet
  }
}

/** The headers that the implementation set; undefined: none. */
export function headersOf(response: UnaryResponse): Headers | undefined {
  return response instanceof RpcResponse ? response.headerSet : response.header
}

/** The protocol of a call. */
export type Protocol = 'rest' | 'connect' | 'grpc'

/** The properties of a call that are known before its body is read. Each protocol implements them. */
export interface CallContext extends CallSource {
  readonly protocol: Protocol
  readonly header: Headers
  /** The Authorization header, if it can be read without creating `header`; null: the caller sent none. */
  readonly authorization?: string | null
  /** Aborts when the caller disconnects or the deadline passes. */
  readonly signal: AbortSignal
  /** The URI in the client's certificate, if the server asks for certificates. */
  readonly clientUri?: string | undefined
  /** The secret of a session, from the cookie of a request by one of our own pages. */
  readonly session?: string | undefined
  /** Ends the call, even if the caller does not read its response. */
  abort?(fault: Fault): void
  /** The caller's rate limit, after an interceptor has applied it. */
  rateLimit?: RateLimitState | undefined
  /** Set by the interceptor that traces calls. */
  span?: Span | undefined
}

/** The state of a rate limit in the headers of a response. */
interface RateLimitState {
  readonly limitText: string
  readonly remaining: number
  readonly resetSeconds: number
}

/** The context of the current call, for interceptors; implementations see it as a `CallSource`. */
export const callContextKey = callSourceKey as ContextKey<CallContext | undefined>

/** The Authorization header of a request; null: the caller sent none. */
export function authorizationOf(request: UnaryRequest | StreamRequest): string | null {
  const known = request.contextValues.get(callContextKey)?.authorization
  return known === undefined ? request.header.get('authorization') : known
}

/** The longest deadline that a call may request. */
export const TIMEOUT_MAX_MS = 3_600_000

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

/**
 * Shortens deadlines above the maximum to just above it; they are refused anyway. Connect sets a timer of the requested
 * length before it refuses, and Node prints a warning if the length is too large for a timer.
 */
export function boundTimeouts(headers: IncomingHttpHeaders): void {
  if (Number(headers['connect-timeout-ms']) > TIMEOUT_MAX_MS) {
    headers['connect-timeout-ms'] = `${TIMEOUT_MAX_MS + 1}`
  }
  const [, value, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(`${headers['grpc-timeout']}`) ?? []
  if (Number(value) * (UNIT_MS[unit] ?? 0) > TIMEOUT_MAX_MS) {
    headers['grpc-timeout'] = `${TIMEOUT_MAX_MS + 1}m`
  }
}
