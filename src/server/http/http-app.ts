import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import { isIP, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type { Logger } from 'pino'
import { isWithin } from '../../core/addresses.ts'
import { withTimeout } from '../../core/concurrency.ts'
import { Fault, REASONS } from '../../core/errors.ts'
import {
  boundConnections,
  LISTEN_BACKLOG,
  listenFault,
  type ServerOptions,
} from '../connections.ts'
import { toFault } from '../status.ts'
import { sendFault } from './gateway.ts'
import {
  handleMalformed,
  type MalformedHandlers,
  malformedRequest,
  type SecurityHeaders,
  securityHeaders,
} from './responses.ts'

export interface HttpAppOptions extends ServerOptions {
  /** CIDRs of proxies whose X-Forwarded-For is trusted; empty: the peer is always the caller. */
  readonly trustedProxies: readonly string[]
}

/** A server without its routes. */
interface HttpApp {
  readonly app: FastifyInstance
  /**
   * Listens after all routes are registered. Other paths are refused.
   *
   * @param setting the setting of the port, for error texts
   * @param posts the paths that accept only POST
   * @throws ConfigError when the server cannot listen at the address
   */
  listen(setting: 'HTTP_PORT' | 'OPS_PORT', posts: ReadonlySet<string>): Promise<HttpServer>
}

export interface HttpServer {
  readonly port: number
  /** The number of open connections. */
  connections(): number
  /** Asks clients to leave by `Connection: close` in responses. New connections are still accepted. */
  announceStop(): void
  /**
   * Stops listening and waits for requests in progress; cuts them after `drainMs`.
   *
   * @returns how many requests it cut
   */
  close(drainMs: number): Promise<number>
}

/** How long a request with its body may take to arrive. */
const REQUEST_MS = 30_000

const STALLED_MS = 30_000

const SERVER = {
  // Node's own refusal has no request id; a hook below refuses the request with an id.
  requireHostHeader: false,
  headersTimeout: 10_000,
  // How often Node checks for requests that exceed a time-out.
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
  // Set before the plugins, which inherit this handler.
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    const fault = fromFastify(error)
    logFault(options.log, fault, request)
    return reply.send(sendFault(reply, fault))
  })
  // Without parsers, a request to an unknown path is refused for its path and not for its body.
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
        // The remaining clients have not finished their requests, or have sent none.
        if (!inTime) connections.destroyAll()
        await closed
        return cut
      }
      return { port, connections: connections.count, announceStop: responses.announce, close }
    },
  }
}

/** @param secured the security headers of every response */
function createApp(
  { tls, requestIds, trustedProxies }: HttpAppOptions,
  secured: SecurityHeaders,
  onClientError: MalformedHandlers['onClientError'],
): FastifyInstance {
  return Fastify({
    logger: false,
    genReqId: requestIds,
    trustProxy: trustedProxies.length > 0 ? isWithin(trustedProxies) : false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 200 },
    // Bounds the whole request, and therefore a body that is sent byte by byte.
    requestTimeout: REQUEST_MS,
    // Bounds connections without traffic, for example if the client does not read its response.
    connectionTimeout: STALLED_MS,
    // Longer than the usual 60 s of load balancers, so that Inflow never closes a connection while a request arrives.
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

/** Bounds pipelined requests, sets the headers of every response, and requires exactly one Host header. */
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
 * Counts Host headers. Node keeps the first one, but a proxy may have routed by the last one (RFC 9112, section 3.2).
 *
 * @param rawHeaders names and values alternately
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

/** Logs errors outside of calls; the observation interceptor logs errors of calls. */
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

/**
 * Ends the connections of a server after the responses that their clients wait for.
 *
 * A client sends its next request on a kept connection unless a response announced that the connection closes. Closing it
 * without the announcement may lose a request that is already being sent.
 */
function createLastResponses(server: Server) {
  const open = new Set<ServerResponse>()
  let announced = false
  server.prependListener('request', (_request, response) => {
    if (announced) response.setHeader('connection', 'close')
    open.add(response)
    response.once('close', () => open.delete(response))
  })
  /** From now on, responses have `Connection: close`. */
  const announce = (): void => {
    announced = true
    for (const response of open) {
      if (!response.headersSent) response.setHeader('connection', 'close')
    }
  }
  return {
    announce,
    /** Like `announce`; also closes connections after responses whose headers were already sent. */
    closeConnections() {
      announce()
      for (const response of open) {
        // For example the response of a stream, or a response that began before the announcement.
        const { socket } = response
        response.once('close', () => socket?.destroySoon())
      }
    },
    /** How many requests have no complete response yet. */
    inProgress: () => open.size,
  }
}

/** The most requests of a connection that wait for earlier responses. */
const WAITING_MAX = 8

/**
 * Bounds the pipelined requests of a connection (RFC 9112, section 9.3.2). Node handles every request of a
 * packet and keeps all responses for a client that does not read them, so a few thousand bytes would occupy many
 * megabytes. Real clients pipeline only a few requests.
 *
 * @returns whether to serve a request; if not, its connection is closed
 */
function createPipelineBound() {
  const waiting = new WeakMap<Socket, number>()
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    // Only a response that waits for an earlier one has no socket yet.
    if (response.socket !== null) return true
    const { socket } = request
    const count = (waiting.get(socket) ?? 0) + 1
    if (count > WAITING_MAX || socket.destroyed) {
      // The remaining requests of the packet also reach this line.
      socket.destroy()
      return false
    }
    waiting.set(socket, count)
    response.once('close', () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1))
    return true
  }
}

/**
 * Keeps only the valid addresses at the end of `X-Forwarded-For`. If an entry is not an address, the nearest known proxy
 * after it counts as the caller. Otherwise rate limits, allowed ranges and the audit log would take any text for an address.
 */
function dropUnknownCallers(headers: IncomingHttpHeaders): void {
  const given = headers['x-forwarded-for']
  if (given === undefined) return
  const parts = `${given}`.split(',').map((part) => part.trim())
  const known = parts.slice(parts.findLastIndex((part) => isIP(part) === 0) + 1)
  headers['x-forwarded-for'] = known.join(', ')
}
