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
import { type Source, sourceKey } from '../caller.ts'
import type { Fault, FieldFault } from '../errors.ts'

/** The doors that a call can come through. */
export type Door = 'rest' | 'connect' | 'grpc'

/** How a call came in; a door fills it in. */
export interface Origin extends Source {
  readonly door: Door
  readonly header: Headers
  /** The credential in the headers, where a door has it at hand; null: there is none. */
  readonly authorization?: string | null
  /** Aborts when the caller is gone or its deadline has passed. */
  readonly signal: AbortSignal
  /** The URI in the certificate that the client showed, where it had to. */
  readonly clientUri?: string | undefined
  /**
   * Reads the body, where that waits until the caller is known: strangers cost no parsing.
   *
   * @throws Fault when it is not the message that it should be
   */
  readMessage?(): Message | Promise<Message>
  /** What of the message could not be read, once it is: told with what else is wrong with it. */
  readonly fieldFaults?: readonly FieldFault[] | undefined
  /** Ends the call, also where the caller does not read what it is sent. */
  abort?(fault: Fault): void
  /** Where the caller stands with its limit, when it has one; found out on the way. */
  rateLimit?: RateLimitState | undefined
}

/** What an answer tells of a limit. */
interface RateLimitState {
  readonly limitText: string
  readonly remaining: number
  readonly resetSeconds: number
}

/** The origin of the call under way, for interceptors; implementations see it as its `Source`. */
export const originKey = sourceKey as ContextKey<Origin | undefined>

/** One method, ready to be called by any door. */
export interface Call {
  readonly service: DescService
  readonly method: DescMethod
  /**
   * Runs the interceptors and the implementation. Rejects with a Fault.
   *
   * @param message undefined: the origin reads it
   */
  unary(message: Message | undefined, origin: Origin): Promise<UnaryResponse>
  /** The same for a server-streaming method; the stream may throw a Fault. */
  stream(message: Message | undefined, origin: Origin): Promise<StreamResponse>
}

/** A service and what implements it. */
export interface Implementation {
  readonly service: DescService
  readonly methods: Readonly<Record<string, unknown>>
}

export function implement<S extends DescService>(service: S, methods: ServiceImpl<S>) {
  return { service, methods } as Implementation
}

type Handler = (message: unknown, context: HandlerContext) => unknown

/**
 * Binds every method of the services to its implementation, behind the interceptors.
 *
 * @param interceptors the first is the outermost
 */
export function createCalls(
  implementations: readonly Implementation[],
  interceptors: readonly Interceptor[],
): readonly Call[] {
  return implementations.flatMap(({ service, methods }) =>
    service.methods.map((method) => {
      const handler = methods[method.localName] as Handler
      const innermost = method.methodKind === 'unary' ? unaryEnd(handler) : streamEnd(handler)
      const run = interceptors.reduceRight(
        (next, interceptor) => interceptor(next),
        innermost as ReturnType<Interceptor>,
      )
      return bind(service, method, run)
    }),
  )
}

function bind(service: DescService, method: DescMethod, run: ReturnType<Interceptor>): Call {
  const url = `/${service.typeName}/${method.name}`
  return {
    service,
    method,
    unary: (message, origin) =>
      run(new UnaryCall(service, method, url, message, origin)) as Promise<UnaryResponse>,
    stream: (message, origin) => {
      const { signal, header } = origin
      const contextValues = createContextValues().set(originKey, origin)
      const request = { service, method, url, signal, header, contextValues }
      const many = { ...request, stream: true, requestMethod: 'POST', message: single(message) }
      return run(many as StreamRequest) as Promise<StreamResponse>
    },
  }
}

/** A unary request whose signal and headers are made only when somebody asks for them. */
class UnaryCall implements UnaryRequest {
  readonly stream = false
  readonly requestMethod = 'POST'
  readonly service: DescService
  readonly method: UnaryRequest['method']
  readonly url: string
  readonly contextValues: ContextValues
  message: UnaryRequest['message']
  readonly #origin: Origin

  constructor(
    service: DescService,
    method: DescMethod,
    url: string,
    message: Message | undefined,
    origin: Origin,
  ) {
    this.service = service
    this.method = method as UnaryRequest['method']
    this.url = url
    // Without one, the validation reads it.
    this.message = message as UnaryRequest['message']
    this.contextValues = createContextValues().set(originKey, origin)
    this.#origin = origin
  }

  get signal(): AbortSignal {
    return this.#origin.signal
  }

  get header(): Headers {
    return this.#origin.header
  }
}

/** What a request says of who calls. */
export function authorizationOf(request: UnaryRequest | StreamRequest): string | null {
  const known = request.contextValues.get(originKey)?.authorization
  return known === undefined ? request.header.get('authorization') : known
}

async function* single<T>(message: T): AsyncGenerator<T> {
  yield message
}

function unaryEnd(handler: Handler) {
  return async (request: UnaryRequest): Promise<UnaryResponse> => {
    const context = new CallContext(request)
    const message = (await handler(request.message, context)) as never
    return new Answer(request, context, create(request.method.output, message))
  }
}

function streamEnd(handler: Handler) {
  return async (request: StreamRequest): Promise<StreamResponse> => {
    const context = new CallContext(request)
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
    throw new Error('a server-streaming call has one request')
  }
}

/** The standard context, with nothing made before somebody asks for it. */
class CallContext implements HandlerContext {
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
    this.protocolName = request.contextValues.get(originKey)?.door ?? 'grpc'
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

  /** The headers that were set, if any were. */
  get headerSet(): Headers | undefined {
    return this.#header
  }
}

/** A unary answer that does not make headers that nobody set. */
class Answer implements UnaryResponse {
  readonly stream = false
  readonly service: DescService
  readonly method: UnaryRequest['method']
  readonly message: UnaryResponse['message']
  readonly #context: CallContext

  constructor(request: UnaryRequest, context: CallContext, message: UnaryResponse['message']) {
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

  /** The headers that were set, if any were. */
  get headerSet(): Headers | undefined {
    return this.#context.headerSet
  }
}

/** The headers that an answer's implementation set, without making any. */
export function headersOf(response: UnaryResponse): Headers | undefined {
  return response instanceof Answer ? response.headerSet : response.header
}
