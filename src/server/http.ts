import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { Fault } from '../errors.ts'
import type { Call } from './calls.ts'
import { connectDoor } from './connect.ts'
import { gateway, sendFault } from './gateway/gateway.ts'
import { answerMalformed, malformedRequest } from './malformed.ts'
import { toFault } from './status.ts'

interface HttpDoorOptions {
  readonly calls: readonly Call[]
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Ranges of proxies whose X-Forwarded-For says who calls; none: whoever connects is the caller. */
  readonly trustedProxies: readonly string[]
  readonly requestIds: () => string
  readonly metrics: Registry
  /** Whether calls can be served now; false while draining or without a database. */
  readonly ready: () => Promise<boolean>
  readonly log: Logger
}

export interface HttpDoor {
  readonly port: number
  /** Stops listening, and waits for the requests under way. */
  close(): Promise<void>
}

/** Opens the HTTP door: REST, Connect, gRPC-Web, health and metrics. */
export async function openHttpDoor(options: HttpDoorOptions): Promise<HttpDoor> {
  const app: FastifyInstance = Fastify({
    logger: false,
    genReqId: options.requestIds,
    trustProxy: options.trustedProxies.length > 0 ? [...options.trustedProxies] : false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 200 },
    requestTimeout: 30_000,
    // Longer than a load balancer's 60 s, so that it is never us who close under its request.
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    // Node would refuse these by itself, without a request id; the hook below does it with one.
    http: { requireHostHeader: false },
    clientErrorHandler: answerMalformed(options.requestIds),
    frameworkErrors: (error, _request, reply: FastifyReply) =>
      reply.send(sendFault(reply, fromFastify(error))),
  })
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    const hostless = request.headers.host === undefined && request.raw.httpVersion === '1.1'
    done(hostless ? malformedRequest('There is no Host header') : undefined)
  })
  // Expectations other than 100-continue are passed over, rather than refused without an id.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response)
  })
  // What is registered below inherits this handler, so it comes first.
  app.setErrorHandler<FastifyError>((error, _request, reply) =>
    reply.send(sendFault(reply, fromFastify(error))),
  )
  // Whatever the body of a request to no path is, it is not what is wrong with the request.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _body, done) => done(null))
  const paths = await gateway(app, options.calls)
  await connectDoor(app, options.calls)
  operations(app, options)
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]?.replace(/\/$/, '') ?? ''
    const fault = paths.has(path)
      ? new Fault('method_not_allowed', 'This path takes POST alone')
      : new Fault('unknown_path', 'There is nothing at this path')
    return reply.send(sendFault(reply, fault))
  })
  await app.listen({ host: options.host, port: options.port })
  const address = app.server.address()
  const port = typeof address === 'object' && address !== null ? address.port : options.port
  return { port, close: () => app.close() }
}

function operations(app: FastifyInstance, options: HttpDoorOptions): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    const ready = await options.ready()
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not ready' })
  })
  app.get('/metrics', async (_request, reply) => {
    reply.header('content-type', options.metrics.contentType)
    return options.metrics.metrics()
  })
}

function fromFastify(error: FastifyError): Fault {
  if (error instanceof Fault) return error
  if (error.statusCode === 413) {
    return new Fault('payload_too_large', 'The body is larger than 64 KiB')
  }
  if (error.statusCode === 415) {
    return new Fault('unsupported_media_type', 'Send Content-Type: application/json')
  }
  if (error.statusCode !== undefined && error.statusCode < 500) {
    return malformedRequest('The request could not be read', error)
  }
  return toFault(error)
}
