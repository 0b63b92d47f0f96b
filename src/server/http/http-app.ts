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
import { addressRanges, parseAddress } from '../../core/addresses.ts'
import { Fault, REASONS } from '../../core/errors.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import {
  boundConnections,
  type ConnectionLimits,
  LISTEN_BACKLOG,
  listenFault,
} from '../connections.ts'
import { toFault } from '../status.ts'
import type { Tls } from '../tls.ts'
import { sendFault } from './gateway.ts'
import {
  handleMalformed,
  type MalformedHandlers,
  malformedRequest,
  type SecurityHeaders,
  securityHeaders,
} from './responses.ts'

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

/** Ends the connections of a server with the responses that they wait for. */
interface LastResponses {
  /** From now on, a response states that its connection closes. */
  announce(): void
  /** Announces, and closes connections after responses whose head was sent before. */
  closeConnections(): void
  /** How many requests have no complete response. */
  inProgress(): number
}

/**
 * A client with a kept connection sends its next request there, unless the response states that the
 * connection closes. A connection that is closed without that may cut a request that is on its way.
 */
function createLastResponses(server: Server): LastResponses {
  const open = new Set<ServerResponse>()
  let announced = false
  server.prependListener('request', (_request, response) => {
    if (announced) response.setHeader('connection', 'close')
    open.add(response)
    response.once('close', () => open.delete(response))
  })
  const announce = (): void => {
    announced = true
    for (const response of open) {
      if (!response.headersSent) response.setHeader('connection', 'close')
    }
  }
  return {
    announce,
    closeConnections() {
      announce()
      for (const response of open) {
        // For example, the response of a stream, or one that began before the announcement.
        const { socket } = response
        response.once('close', () => socket?.destroySoon())
      }
    },
    inProgress: () => open.size,
  }
}

/** Requests of one connection that may wait for earlier responses. */
const WAITING_MAX = 8

/**
 * Bounds pipelined requests of a connection (RFC 9112, section 9.3.2). Node handles every request of a
 * packet and keeps all responses for a client that does not read them: a few thousand bytes would
 * pin many megabytes. Real clients pipeline only a few requests.
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
      // The remaining requests of the packet arrive here too.
      socket.destroy()
      return false
    }
    waiting.set(socket, count)
    response.once('close', () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1))
    return true
  }
}

/** Whether a peer is a proxy that states the address of its caller. */
type TrustsProxy = (address: string) => boolean

/** @param cidrs of the proxies */
function createTrustsProxy(cidrs: readonly string[]): TrustsProxy {
  const ranges = addressRanges(cidrs)
  return (text) => {
    const address = parseAddress(text)
    return address !== undefined && ranges.contains(address)
  }
}

/**
 * Keeps only the addresses at the end of `X-Forwarded-For`. The caller behind anything else is unknown, so the nearest
 * proxy that is known counts as the caller. Otherwise any text would be an address to rate limits, allowed ranges and
 * the audit log.
 */
function dropUnknownCallers(headers: IncomingHttpHeaders): void {
  const given = headers['x-forwarded-for']
  if (given === undefined) return
  const parts = `${given}`.split(',').map((part) => part.trim())
  const known = parts.slice(parts.findLastIndex((part) => isIP(part) === 0) + 1)
  headers['x-forwarded-for'] = known.join(', ')
}
