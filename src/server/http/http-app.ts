import type { Server as HttpsServer } from 'node:https'
import type { TLSSocket } from 'node:tls'
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type { Logger } from 'pino'
import { Fault, REASONS } from '../../core/errors.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import { boundConnections, type ConnectionLimits, LISTEN_BACKLOG } from '../connections.ts'
import { listenFault } from '../listen-fault.ts'
import { sendFault } from '../rest/gateway.ts'
import { toFault } from '../rpc/status.ts'
import type { Tls } from '../tls.ts'
import { type SecurityHeaders, securityHeaders } from './headers.ts'
import { createLastResponses } from './last-responses.ts'
import { handleMalformed, type MalformedHandlers, malformedRequest } from './malformed.ts'
import { createPipelineBound } from './pipelines.ts'
import { createTrustsProxy, dropUnknownCallers } from './trusted-proxies.ts'

export interface HttpAppOptions {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Whether other processes listen on the same port. */
  readonly reusePort?: boolean
  /** CIDRs of proxies whose X-Forwarded-For is trusted; none: the peer is the caller. */
  readonly trustedProxies: readonly string[]
  readonly requestIds: () => string
  readonly log: Logger
  readonly limits: ConnectionLimits
  /** Undefined: no TLS. */
  readonly tls?: Tls | undefined
}

/** A server without its routes. */
export interface HttpApp {
  readonly app: FastifyInstance
  /**
   * Listens once all routes are there. Other paths are refused.
   *
   * @param setting of the port, for errors
   * @param posts the paths that accept only POST
   * @throws ConfigError when the server cannot listen at the address
   */
  listen(setting: 'HTTP_PORT' | 'OPS_PORT', posts: ReadonlySet<string>): Promise<HttpServer>
}

export interface HttpServer {
  readonly port: number
  /** The number of open connections. */
  connections(): number
  /** Asks clients to leave: responses say `Connection: close`. New connections are accepted. */
  announceStop(): void
  /**
   * Stops listening and waits for requests in progress; cuts them after `drainMs`.
   *
   * @returns how many requests it cut
   */
  close(drainMs: number): Promise<number>
}

/** For a request with its body, in milliseconds. */
const REQUEST_MS = 30_000

const STALLED_MS = 30_000

const SERVER = {
  // Node's own refusal has no request id; a hook below refuses with one.
  requireHostHeader: false,
  headersTimeout: 10_000,
  // How often Node looks for requests that exceed a time-out.
  connectionsCheckingInterval: 2_000,
  maxHeaderSize: 16 * 1024,
  handshakeTimeout: 10_000,
} as const

/** Creates a server with the bounds, headers and errors of all our HTTP servers. */
export function createHttpApp(options: HttpAppOptions): HttpApp {
  const { tls, host } = options
  const secured = securityHeaders(tls !== undefined)
  const malformed = handleMalformed(options.requestIds, Object.entries(secured))
  const app = createApp(options, secured, malformed.onClientError)
  app.server.prependListener('request', malformed.onRequest)
  const connections = boundConnections(app.server, options.limits)
  const responses = createLastResponses(app.server)
  // A client without a completed handshake cannot read an HTTP response.
  app.server.prependListener('tlsClientError', (_error: Error, socket: TLSSocket) => {
    socket.destroy()
  })
  tls?.onReload(() => (app.server as HttpsServer).setSecureContext(tls.server()))
  onEachRequest(app, secured)
  if (options.trustedProxies.length > 0) {
    app.addHook('onRequest', (request, _reply, done) => {
      dropUnknownCallers(request.raw.headers)
      done()
    })
  }
  // Ignore expectations other than 100-continue: Node would refuse them without a request id.
  app.server.on('checkExpectation', (request, response) => {
    app.server.emit('request', request, response)
  })
  // Plugins inherit this handler, so it comes before them.
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    const fault = fromFastify(error)
    logFault(options.log, fault, request)
    return reply.send(sendFault(reply, fault))
  })
  // A request to an unknown path is refused for its path, whatever its body is.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _body, done) => done(null))
  return {
    app,
    async listen(setting, posts) {
      refuseOtherPaths(app, posts)
      const { port: wanted, reusePort = false } = options
      const at = { host, port: wanted, reusePort, backlog: LISTEN_BACKLOG }
      await app.listen(at).catch((error: unknown) => {
        throw listenFault(setting, options, error)
      })
      const address = app.server.address()
      const port = typeof address === 'object' && address !== null ? address.port : options.port
      const close = async (drainMs: number): Promise<number> => {
        responses.closeConnections()
        const closed = app.close()
        const inTime = await withTimeout(closed, drainMs)
        const cut = inTime ? 0 : responses.inProgress()
        // A client cannot be asked to finish its request, or to start one.
        if (!inTime) connections.destroyAll()
        await closed
        return cut
      }
      return { port, connections: connections.count, announceStop: responses.announce, close }
    },
  }
}

/** @param secured the headers of every response */
function createApp(
  { tls, requestIds, trustedProxies }: HttpAppOptions,
  secured: SecurityHeaders,
  onClientError: MalformedHandlers['onClientError'],
): FastifyInstance {
  return Fastify({
    logger: false,
    genReqId: requestIds,
    trustProxy: trustedProxies.length > 0 ? createTrustsProxy(trustedProxies) : false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 200 },
    // For the whole request, so also for a body that is sent byte by byte.
    requestTimeout: REQUEST_MS,
    // For a connection without traffic, such as one whose client does not read its response.
    connectionTimeout: STALLED_MS,
    // Longer than a load balancer's 60 s, so that Inflow never closes while a request arrives.
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    ...(tls ? { https: { ...tls.server(), ...SERVER } } : { http: SERVER }),
    clientErrorHandler: onClientError,
    // Fastify runs no hooks for these errors.
    frameworkErrors: (error, _request, reply: FastifyReply) =>
      reply.headers(secured).send(sendFault(reply, fromFastify(error))),
  }) as unknown as FastifyInstance
}

/** Bounds pipelined requests, sets the headers of every response, and refuses requests without one host. */
function onEachRequest(app: FastifyInstance, secured: SecurityHeaders): void {
  const served = createPipelineBound()
  const headers = Object.entries(secured)
  app.addHook('onRequest', (request, reply, done) => {
    if (!served(request.raw, reply.raw)) {
      reply.hijack()
      return
    }
    reply.header('x-request-id', request.id)
    for (const [name, value] of headers) reply.header(name, value)
    const hosts = countHosts(request.raw.rawHeaders)
    if (hosts > 1) done(malformedRequest('There is more than one Host header'))
    else if (hosts === 0 && request.raw.httpVersion === '1.1') {
      done(malformedRequest('The Host header is missing'))
    } else done()
  })
}

/**
 * Node keeps the first of several hosts, and a proxy may have routed by the last (RFC 9112, 3.2).
 *
 * @param rawHeaders names and values in turn
 */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length === 4 && name.toLowerCase() === 'host') count += 1
  }
  return count
}

function refuseOtherPaths(app: FastifyInstance, posts: ReadonlySet<string>): void {
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0]?.replace(/\/$/, '') ?? ''
    const fault = posts.has(path)
      ? new Fault('method_not_allowed', 'This path accepts only POST')
      : new Fault('unknown_path', 'There is nothing at this path')
    return reply.send(sendFault(reply, fault))
  })
}

/** Logs errors outside of calls; the observation interceptor logs those of calls. */
function logFault(log: Logger, fault: Fault, { id, routeOptions }: FastifyRequest): void {
  const [code, status] = REASONS[fault.reason]
  if (status < 500) return
  const record = { request_id: id, path: routeOptions.url, status: code, reason: fault.reason }
  const failure = { ...record, error: fault.message, err: fault.cause }
  if (status === 503) log.warn(failure, 'request could not be served')
  else log.error(failure, 'request failed')
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
