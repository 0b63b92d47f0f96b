import type { DescMethod, Message } from '@bufbuild/protobuf'
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type MethodImpl,
  type StreamResponse,
  type UnaryResponse,
} from '@connectrpc/connect'
import {
  createAsyncIterable,
  type UniversalHandler,
  type UniversalHandlerFn,
  type UniversalServerResponse,
} from '@connectrpc/connect/protocol'
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { readPolicy } from '../../auth/method-policy.ts'
import { assert, Fault, type FieldFault, invalidFields } from '../../core/errors.ts'
import {
  boundTimeouts,
  type CallContext,
  type Decoded,
  headersOf,
  type Invoker,
  TIMEOUT_MAX_MS,
} from '../invokers.ts'
import { compileFindUnknown, refuseRepeatedKeys } from '../json.ts'
import { toConnectError, toFault } from '../status.ts'
import { BODY_BYTES_MAX, hasEncoding } from './gateway.ts'
import { errorHeaders, malformedRequest, rateLimitHeaders, toErrorResponse } from './responses.ts'

/** The largest message of a call with a token: large enough for a batch of 1,000 payments. */
const TOKEN_BYTES_MAX = 4 * 1024 * 1024

const UTF8 = new TextDecoder('utf-8', { fatal: true })

/** Returns the session secret in the cookie of a request; undefined if the request has no session. */
type SessionOf = (request: FastifyRequest) => string | undefined

/** Serves every method over Connect and gRPC-Web. */
export async function registerConnect(
  app: FastifyInstance,
  invokers: readonly Invoker[],
  sessionOf: SessionOf,
): Promise<void> {
  const forBusinesses = (invoker: Invoker) => readPolicy(invoker.method).credential === 'secret key'
  await app.register(async (scope) => {
    // The library parses the Host header as part of a URL, and prints an error if it cannot.
    scope.addHook('onRequest', (request, _reply, done) => {
      const { host } = request.headers
      boundTimeouts(request.raw.headers)
      const usable = host === undefined || URL.canParse(`http://${host}`)
      done(usable ? undefined : malformedRequest('The Host header is not a host'))
    })
    const noSession = () => undefined
    await registerMethods(scope, invokers.filter(forBusinesses), BODY_BYTES_MAX, noSession)
    const internal = invokers.filter((invoker) => !forBusinesses(invoker))
    await registerMethods(scope, internal, TOKEN_BYTES_MAX, sessionOf)
  })
}

/** @param bytesMax of a message */
async function registerMethods(
  scope: FastifyInstance,
  invokers: readonly Invoker[],
  bytesMax: number,
  sessionOf: SessionOf,
): Promise<void> {
  const byMethod = new Map<DescMethod, Invoker>(invokers.map((each) => [each.method, each]))
  await scope.register(fastifyConnectPlugin, {
    grpc: false,
    readMaxBytes: bytesMax,
    maxTimeoutMs: TIMEOUT_MAX_MS,
    contextValues: (request) =>
      createContextValues().set(peerKey, {
        address: request.ip,
        requestId: request.id,
        session: sessionOf(request),
        // No error can be sent to a caller that does not read its response.
        abort: () => request.socket.destroy(),
      }),
    // The call begins here, before the body is read. It gets its message after the caller is authenticated.
    requestGate: async (handler) => {
      const invoker = byMethod.get(handler.method)
      assert(invoker, 'every routed method has an invoker')
      const admission = admit({ invoker, handler, peer: handler.values.get(peerKey), bytesMax })
      handler.values.set(admissionKey, admission)
      await admission.admitted.finally(() => {
        for (const [name, value] of rateLimitHeaders(admission.context)) {
          handler.responseHeader.set(name, value)
        }
      })
    },
    routes: (router) => routes(router, invokers),
  })
}

/**
 * Connect decodes every JSON message of a method with this decoder, whatever its framing or compression, so all of them are
 * checked here. The types of Connect do not declare the option; a test fails if Connect stops using it.
 */
function jsonOptions(method: DescMethod) {
  const findUnknown = compileFindUnknown(method)
  const decode = (bytes?: Uint8Array): string => {
    const text = UTF8.decode(bytes)
    refuseRepeatedKeys(text)
    const body: unknown = JSON.parse(text)
    const faults = typeof body === 'object' && body !== null ? [...findUnknown(body)] : []
    // Valid UTF-8 can contain surrogates only as JSON escapes.
    if (/\\u[dD][89a-fA-F]/.test(text)) findHalfPairs(body, '', faults)
    if (faults.length > 0) throw invalidFields(faults)
    return text
  }
  return { ignoreUnknownFields: true, textDecoder: { decode } }
}

/** How many texts with half of a surrogate pair an error names. */
const HALF_PAIRS_MAX = 20

/** Adds a fault for each string that has half of a surrogate pair; the parser's own error would name no field. */
function findHalfPairs(value: unknown, path: string, faults: FieldFault[]): void {
  if (faults.length >= HALF_PAIRS_MAX) return
  if (typeof value === 'string' && !value.isWellFormed()) {
    faults.push({ field: path, message: 'must not contain half of a surrogate pair' })
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, each] of Object.entries(value)) {
      const name = Array.isArray(value) ? `[${key}]` : path === '' ? key : `.${key}`
      findHalfPairs(each, path + name, faults)
    }
  }
}

function routes(router: ConnectRouter, invokers: readonly Invoker[]): void {
  for (const { method } of invokers) {
    // The router determines the protocols again for each method, so `grpc: false` has to be repeated here.
    const options = { grpc: false, jsonOptions: jsonOptions(method) }
    router.rpc(method, adapt(method) as MethodImpl<typeof method>, options)
  }
  const { handlers } = router
  for (const [index, handler] of handlers.entries()) handlers[index] = restateRefusals(handler)
}

function adapt(method: DescMethod) {
  return method.methodKind === 'server_streaming' ? respondStream : respondUnary
}

async function respondUnary(message: Message, context: HandlerContext) {
  const response = (await responseOf(message, context)) as UnaryResponse
  headersOf(response)?.forEach((value, name) => {
    context.responseHeader.set(name, value)
  })
  return response.message
}

async function* respondStream(message: Message, context: HandlerContext) {
  const admission = context.values.get(admissionKey)
  try {
    const response = (await responseOf(message, context)) as StreamResponse
    yield* response.message
  } catch (error) {
    throw admission?.toError(error) ?? error
  }
}

function responseOf(message: Message, context: HandlerContext) {
  const admission = context.values.get(admissionKey)
  assert(admission, 'every call passes the request gate')
  admission.give(message)
  return admission.response
}

/** The content types whose bodies Connect decompresses as a whole; the other protocols compress each message. */
const COMPRESSED_WHOLE = /^application\/(json|proto)\b/i

/**
 * Makes a handler of Connect respond with our error envelope where it would respond with a bare status, and with 413 to a
 * body that is too large: Connect would respond with 429, which asks clients to try again.
 */
function restateRefusals(handler: UniversalHandler): UniversalHandler {
  const methods = handler.allowedMethods.join(', ')
  const handle: UniversalHandlerFn = async (request) => {
    const { header, contextValues } = request
    const requestId = contextValues?.get(peerKey).requestId ?? ''
    const compressible = COMPRESSED_WHOLE.test(header.get('content-type') ?? '')
    if (!compressible && hasEncoding(header.get('content-encoding'))) {
      const text = 'Send the body without Content-Encoding'
      return respond(new Fault('unsupported_media_type', text), requestId)
    }
    const response = await handler(request)
    if (response.status === 405) {
      const fault = new Fault('method_not_allowed', `This path accepts only ${methods}`)
      return respond(fault, requestId, { allow: methods })
    }
    if (response.status === 415) {
      const text = 'Send the Content-Type of Connect or gRPC-Web, such as application/json'
      return respond(new Fault('unsupported_media_type', text), requestId)
    }
    const tooLarge = response.status === 429 && contextValues?.get(admissionKey)?.isTooLarge()
    return tooLarge ? { ...response, status: 413 } : response
  }
  return Object.assign(handle, handler)
}

/** Responds with the error envelope. */
function respond(
  fault: Fault,
  requestId: string,
  more: Readonly<Record<string, string>> = {},
): UniversalServerResponse {
  const { status, headers, body } = toErrorResponse(fault, requestId)
  const bytes = Buffer.from(body)
  return {
    status,
    header: new Headers({
      ...headers,
      ...more,
      'content-type': 'application/json; charset=utf-8',
      'content-length': `${bytes.length}`,
    }),
    body: createAsyncIterable([bytes]),
  }
}

/** A call that begins before its message is read. */
interface Admission {
  /** Resolves when the call needs its message. Rejects with the error if the call is refused. */
  readonly admitted: Promise<void>
  /** Passes the message to the call. */
  give(message: Message): void
  /** The response. Rejects with a ConnectError. */
  readonly response: Promise<UnaryResponse | StreamResponse>
  toError(error: unknown): ConnectError
  readonly context: CallContext
  /** Whether the body exceeded its limit. */
  isTooLarge(): boolean
}

/** The caller's side of a call. */
type Peer = Pick<CallContext, 'address' | 'requestId' | 'session'> &
  Required<Pick<CallContext, 'abort'>>

/** The caller's side of the HTTP request, for the handlers of Connect. */
const peerKey = createContextKey<Peer>({
  address: '',
  requestId: '',
  abort: () => undefined,
})

const admissionKey = createContextKey<Admission | undefined>(undefined)

/** The arguments of `admit`. */
interface Arrival {
  readonly invoker: Invoker
  readonly handler: HandlerContext
  readonly peer: Peer
  /** The largest body, in bytes. */
  readonly bytesMax: number
}

/**
 * Begins a call: the caller is authenticated before a byte of the body is read. Errors of Connect
 * about the body get the details that all our errors have.
 */
function admit({ invoker, handler, peer, bytesMax }: Arrival): Admission {
  const admitted = Promise.withResolvers<void>()
  const body = Promise.withResolvers<Decoded>()
  // A call that is refused never reads its body.
  body.promise.catch(() => undefined)
  let finished = false
  let tooLarge = false
  const context: CallContext = {
    protocol: 'connect',
    header: handler.requestHeader,
    signal: handler.signal,
    traceparent: handler.requestHeader.get('traceparent') ?? undefined,
    ...peer,
  }
  const decode = () => {
    admitted.resolve()
    return body.promise
  }
  const toError = (error: unknown) => {
    if (error instanceof ConnectError) return error
    const fault = toFault(error)
    const refused = toConnectError(fault, peer.requestId)
    for (const [name, value] of Object.entries(errorHeaders(fault))) {
      refused.metadata.set(name, value)
    }
    return refused
  }
  const begun =
    invoker.method.methodKind === 'unary'
      ? invoker.unary(decode, context)
      : invoker.stream(decode, context)
  const response = begun.catch((error: unknown) => {
    finished = true
    throw toError(error)
  })
  // A stream decodes its message when it is pulled, which is after the request gate.
  response.then(() => admitted.resolve(), admitted.reject)
  const onAbort = () => {
    if (finished) return
    const fault = toUnreadable(handler.signal.reason, invoker, bytesMax)
    tooLarge = fault.reason === 'payload_too_large'
    restate(handler.signal.reason, fault, peer.requestId)
    body.reject(fault)
  }
  handler.signal.addEventListener('abort', onAbort, { once: true })
  return {
    admitted: admitted.promise,
    give: (message) => {
      finished = true
      body.resolve({ message })
    },
    response,
    toError,
    context,
    isTooLarge: () => tooLarge,
  }
}

/** Returns the fault that explains why the message could not be read. */
function toUnreadable(reason: unknown, { method }: Invoker, bytesMax: number): Fault {
  if (!(reason instanceof ConnectError)) {
    return new Fault('cancelled', 'The caller disconnected', { cause: reason })
  }
  if (reason.cause instanceof Fault) return reason.cause
  switch (reason.code) {
    case Code.ResourceExhausted:
      return new Fault('payload_too_large', `The body is larger than ${sizeText(bytesMax)}`)
    case Code.Canceled:
    case Code.DeadlineExceeded:
      return new Fault('cancelled', reason.rawMessage)
    default:
      return new Fault(
        'malformed_request',
        `The request cannot be read as an ${method.input.typeName}${placeIn(reason.rawMessage)}`,
      )
  }
}

/** The position of a fault in a JSON parser's error text. The rest of that text would quote the request. */
function placeIn(text: string): string {
  const field = /cannot decode field (?:\w+\.)*(\w+) from JSON/.exec(text)?.[1]
  if (field !== undefined) return `: see the field ${field}`
  const [, line, column] = /\(line (\d+) column (\d+)\)$/.exec(text) ?? []
  return line === undefined ? '' : `: see line ${line}, column ${column}`
}

/** Copies a fault into Connect's own error, which the caller gets: its text would quote the request. */
function restate(reason: unknown, fault: Fault, requestId: string): void {
  if (!(reason instanceof ConnectError)) return
  const { code, details, rawMessage } = toConnectError(fault, requestId)
  const known = fault.reason === 'cancelled' ? reason.code : code
  Object.assign(reason, { code: known, rawMessage, details })
}

function sizeText(bytes: number): string {
  return bytes < 1_048_576 ? `${bytes / 1_024} KiB` : `${bytes / 1_048_576} MiB`
}
