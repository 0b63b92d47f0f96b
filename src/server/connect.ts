import type { DescMethod, Message } from '@bufbuild/protobuf'
import {
  type ConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type ServiceImpl,
  type StreamResponse,
  type UnaryResponse,
} from '@connectrpc/connect'
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify'
import type { FastifyInstance } from 'fastify'
import { assert } from '../errors.ts'
import { type Call, headersOf } from './calls.ts'
import { type Admission, admit, type Peer } from './connect-admission.ts'
import { boundTimeouts, TIMEOUT_MAX_MS } from './connect-timeouts.ts'
import { rateLimitHeaders } from './headers.ts'
import { malformedRequest } from './malformed.ts'

/** The largest message: a batch of 1,000 payments has room. */
const MESSAGE_BYTES_MAX = 4 * 1024 * 1024

/** Who is at the other end of an HTTP request. */
const peerKey = createContextKey<Peer>({ address: '', requestId: '', abort: () => undefined })

const admissionKey = createContextKey<Admission | undefined>(undefined)

/** Serves every call over Connect and gRPC-Web. */
export async function connectDoor(app: FastifyInstance, calls: readonly Call[]): Promise<void> {
  const byMethod = new Map<DescMethod, Call>(calls.map((call) => [call.method, call]))
  await app.register(async (scope) => {
    // The library makes a URL of it, and prints an error where it cannot.
    scope.addHook('onRequest', (request, _reply, done) => {
      const { host } = request.headers
      boundTimeouts(request.raw.headers)
      const usable = host === undefined || URL.canParse(`http://${host}`)
      done(usable ? undefined : malformedRequest('The Host header is not a host'))
    })
    await scope.register(fastifyConnectPlugin, {
      grpc: false,
      readMaxBytes: MESSAGE_BYTES_MAX,
      maxTimeoutMs: TIMEOUT_MAX_MS,
      contextValues: (request) =>
        createContextValues().set(peerKey, {
          address: request.ip,
          requestId: request.id,
          // A caller who does not read cannot be told why.
          abort: () => request.socket.destroy(),
        }),
      // The call begins here, before the body is read, and takes it when the caller is known.
      requestGate: async (context) => {
        const call = byMethod.get(context.method)
        assert(call, 'every method that is routed is a call')
        const admission = admit(call, context, context.values.get(peerKey))
        context.values.set(admissionKey, admission)
        await admission.admitted.finally(() => {
          for (const [name, value] of rateLimitHeaders(admission.origin)) {
            context.responseHeader.set(name, value)
          }
        })
      },
      routes: (router) => routes(router, calls),
    })
  })
}

function routes(router: ConnectRouter, calls: readonly Call[]): void {
  for (const service of new Set(calls.map((call) => call.service))) {
    const own = calls.filter((call) => call.service === service)
    const methods = own.map((call) => [call.method.localName, adapt(call.method)] as const)
    router.service(service, Object.fromEntries(methods) as ServiceImpl<typeof service>)
  }
}

function adapt(method: DescMethod) {
  return method.methodKind === 'server_streaming' ? answerStream : answerUnary
}

async function answerUnary(message: Message, context: HandlerContext) {
  const response = (await answerOf(message, context)) as UnaryResponse
  headersOf(response)?.forEach((value, name) => {
    context.responseHeader.set(name, value)
  })
  return response.message
}

async function* answerStream(message: Message, context: HandlerContext) {
  const admission = context.values.get(admissionKey)
  try {
    const response = (await answerOf(message, context)) as StreamResponse
    yield* response.message
  } catch (error) {
    throw admission?.toError(error) ?? error
  }
}

function answerOf(message: Message, context: HandlerContext) {
  const admission = context.values.get(admissionKey)
  assert(admission, 'a call went through the gate')
  admission.give(message)
  return admission.answer
}
