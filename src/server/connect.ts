import type { DescMethod } from '@bufbuild/protobuf'
import {
  type ConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type ServiceImpl,
} from '@connectrpc/connect'
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify'
import type { FastifyInstance } from 'fastify'
import type { Call, Origin } from './calls.ts'
import { headersOf } from './calls.ts'
import { boundTimeouts, correctLibraryFaults, TIMEOUT_MAX_MS } from './connect-faults.ts'
import { malformedRequest } from './malformed.ts'
import { toConnectError, toFault } from './status.ts'

/** The largest message: a batch of 1,000 payments has room. */
const MESSAGE_BYTES_MAX = 4 * 1024 * 1024

/** Who is at the other end of an HTTP request. */
const peerKey = createContextKey({ address: '', requestId: '' })

/** Serves every call over Connect and gRPC-Web. */
export async function connectDoor(app: FastifyInstance, calls: readonly Call[]): Promise<void> {
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
      requestGate: (context) =>
        correctLibraryFaults(context, context.values.get(peerKey).requestId),
      contextValues: (request) =>
        createContextValues().set(peerKey, { address: request.ip, requestId: request.id }),
      routes: (router) => routes(router, calls),
    })
  })
}

function routes(router: ConnectRouter, calls: readonly Call[]): void {
  for (const service of new Set(calls.map((call) => call.service))) {
    const own = calls.filter((call) => call.service === service)
    const methods = own.map((call) => [call.method.localName, adapt(call)] as const)
    router.service(service, Object.fromEntries(methods) as ServiceImpl<typeof service>)
  }
}

function adapt(call: Call) {
  return isStreaming(call.method) ? adaptStream(call) : adaptUnary(call)
}

function isStreaming(method: DescMethod): boolean {
  return method.methodKind === 'server_streaming'
}

function adaptUnary(call: Call) {
  return async (message: never, context: HandlerContext) => {
    const origin = originOf(context)
    try {
      const response = await call.unary(message, origin)
      headersOf(response)?.forEach((value, name) => {
        context.responseHeader.set(name, value)
      })
      return response.message
    } catch (error) {
      throw toConnectError(toFault(error), origin.requestId)
    }
  }
}

function adaptStream(call: Call) {
  return async function* (message: never, context: HandlerContext) {
    const origin = originOf(context)
    try {
      const response = await call.stream(message, origin)
      yield* response.message
    } catch (error) {
      throw toConnectError(toFault(error), origin.requestId)
    }
  }
}

function originOf(context: HandlerContext): Origin {
  const { address, requestId } = context.values.get(peerKey)
  return {
    door: 'connect',
    header: context.requestHeader,
    signal: context.signal,
    address,
    requestId,
  }
}
