import { type DescMethod, getOption, type Message, toJson } from '@bufbuild/protobuf'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { http } from '../../../gen/google/api/annotations_pb.ts'
import { Fault } from '../../core/errors.ts'
import { rateLimitHeaders } from '../http/headers.ts'
import type { CallContext } from '../rpc/call-context.ts'
import { type Decoded, headersOf, type Invoker } from '../rpc/invokers.ts'
import { compileFindUnknown } from '../rpc/unknown-fields.ts'
import { compileDecoder, type Decoder } from './decode.ts'
import { toErrorResponse } from './envelope.ts'
import { parseBody } from './parse-body.ts'

/** The largest body of a request with a secret key: 64 KiB. */
export const BODY_BYTES_MAX = 65_536

/** A signal that never aborts: REST calls are short, and the time-outs of their statements bound them. */
const NEVER = new AbortController().signal

/**
 * Serves the REST paths that the descriptors declare, by the same invokers as the other protocols.
 *
 * @returns the paths served
 */
export async function gateway(
  app: FastifyInstance,
  calls: readonly Invoker[],
): Promise<ReadonlySet<string>> {
  const routes = readRoutes(calls)
  await app.register(async (scope) => {
    // Bodies stay bytes until the caller is authenticated.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      // Fastify would look for the parser of a type that is not named at each request.
      ['application/json', '*'],
      { parseAs: 'buffer', bodyLimit: BODY_BYTES_MAX },
      (_request, body, done) => done(null, body),
    )
    for (const route of routes) {
      const options = { bodyLimit: BODY_BYTES_MAX }
      scope.post(route.path, options, (request, reply) => respond(route, request, reply))
    }
  })
  return new Set(routes.map((route) => route.path))
}

async function respond(
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<string> {
  const context = new RestCallContext(request)
  try {
    const response = await route.invoker.unary(() => decode(route, request), context)
    setRateLimitHeaders(reply, context)
    headersOf(response)?.forEach((value, name) => {
      reply.header(name, value)
    })
    reply.header('content-type', 'application/json; charset=utf-8')
    return route.encode(response.message)
  } catch (error) {
    setRateLimitHeaders(reply, context)
    // The error handler of the HTTP server logs other errors and responds.
    if (!(error instanceof Fault)) throw error
    return sendFault(reply, error)
  }
}

function setRateLimitHeaders(reply: FastifyReply, context: CallContext): void {
  for (const [name, value] of rateLimitHeaders(context)) reply.header(name, value)
}

/** Responds with the error envelope. */
export function sendFault(reply: FastifyReply, fault: Fault): string {
  const requestId = reply.request.id
  const { status, headers, body } = toErrorResponse(fault, requestId)
  reply.code(status).headers(headers).header('x-request-id', requestId)
  reply.header('content-type', 'application/json; charset=utf-8')
  return body
}

/** A class, so that headers are made only when they are read: this is on the path of every call. */
class RestCallContext implements CallContext {
  readonly protocol = 'rest'
  readonly signal = NEVER
  readonly authorization: string | null
  readonly address: string
  readonly requestId: string
  readonly traceparent: string | undefined
  rateLimit: CallContext['rateLimit']
  span: CallContext['span']

  constructor(request: FastifyRequest) {
    this.authorization = request.headers.authorization ?? null
    this.address = request.ip
    this.requestId = request.id
    // Node joins the values of a header that came twice, which makes this one malformed.
    this.traceparent = request.headers['traceparent'] as string | undefined
  }

  get header(): Headers {
    const { authorization } = this
    return new Headers(authorization === null ? {} : { authorization })
  }
}

function decode(route: Route, { headers, body }: FastifyRequest): Decoded {
  requireJson(headers['content-type'])
  if (hasEncoding(headers['content-encoding'])) {
    throw new Fault('unsupported_media_type', 'Send the body without Content-Encoding')
  }
  return route.decode(parseBody(body))
}

function requireJson(contentType: string | undefined): void {
  if (contentType === 'application/json') return
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase()
  if (mediaType === 'application/json') return
  throw new Fault('unsupported_media_type', 'Send Content-Type: application/json')
}

/** Whether a Content-Encoding header states that a body is compressed. */
export function hasEncoding(encoding: string | null | undefined): boolean {
  return !!encoding && !/^\s*(identity)?\s*$/i.test(encoding)
}

/** One REST path and the method behind it. */
interface Route {
  /** The path, without a slash at its end. */
  readonly path: string
  readonly invoker: Invoker
  readonly decode: Decoder
  /** Writes every field except those with explicit presence that are not set. */
  readonly encode: (response: Message) => string
}

/**
 * Reads `google.api.http` from the descriptors.
 *
 * @throws Error for anything but POST with the whole body, which is all that the contract uses
 */
export function readRoutes(invokers: readonly Invoker[]): readonly Route[] {
  return invokers.flatMap((invoker) => {
    const path = postPath(invoker.method)
    if (path === undefined) return []
    const decode = compileDecoder(invoker.method.input, compileFindUnknown(invoker.method))
    const encode = (response: Message) =>
      JSON.stringify(toJson(invoker.method.output, response, { alwaysEmitImplicit: true }))
    return [{ path, invoker, decode, encode }]
  })
}

function postPath(method: DescMethod): string | undefined {
  const options = method.proto.options
  if (!options) return undefined
  const rule = getOption(method, http)
  if (rule.pattern.case === undefined) return undefined
  const path = rule.pattern.value
  if (rule.pattern.case !== 'post' || typeof path !== 'string' || rule.body !== '*') {
    throw new Error(`${method.name}: only POST with body "*" is served`)
  }
  if (!/^(\/[A-Za-z0-9]+)+$/.test(path))
    throw new Error(`${method.name}: "${path}" is no fixed path`)
  return path
}
