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
import { assert } from '../../core/errors.ts'
import { rateLimitHeaders } from '../http/headers.ts'
import { malformedRequest } from '../http/malformed.ts'
import { headersOf, type Invoker } from '../rpc/invokers.ts'
import { type Admission, admit, type Peer } from './admission.ts'
import { boundTimeouts, TIMEOUT_MAX_MS } from './timeouts.ts'

/** The largest message: a batch of 1,000 payments has room. */
const MESSAGE_BYTES_MAX = 4 * 1024 * 1024

/** The other end of an HTTP request. */
const peerKey = createContextKey<Peer>({ address: '', requestId: '', abort: () => undefined })

const admissionKey = createContextKey<Admission | undefined>(undefined)

/** Serves every method over Connect and gRPC-Web. */
export async function registerConnect(
  app: FastifyInstance,
  invokers: readonly Invoker[],
): Promise<void> {
  const byMethod = new Map<DescMethod, Invoker>(invokers.map((each) => [each.method, each]))
  await app.register(async (scope) => {
    // The library parses it as a URL, and prints an error when it cannot.
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
          // A caller that does not read cannot be sent an error.
          abort: () => request.socket.destroy(),
        }),
      // The call begins here, before the body is read. It gets the message once the caller is known.
      requestGate: async (context) => {
        const invoker = byMethod.get(context.method)
        assert(invoker, 'every routed method has an invoker')
        const admission = admit(invoker, context, context.values.get(peerKey))
        context.values.set(admissionKey, admission)
        await admission.admitted.finally(() => {
          for (const [name, value] of rateLimitHeaders(admission.context)) {
            context.responseHeader.set(name, value)
          }
        })
      },
      routes: (router) => routes(router, invokers),
    })
  })
}

function routes(router: ConnectRouter, invokers: readonly Invoker[]): void {
  for (const service of new Set(invokers.map((invoker) => invoker.service))) {
    const own = invokers.filter((invoker) => invoker.service === service)
    const methods = own.map(({ method }) => [method.localName, adapt(method)] as const)
    router.service(service, Object.fromEntries(methods) as ServiceImpl<typeof service>)
  }
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
