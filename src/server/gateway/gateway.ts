import { isUtf8 } from 'node:buffer'
import type { Message } from '@bufbuild/protobuf'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Fault, type FieldFault } from '../../errors.ts'
import { type Call, headersOf, type Origin } from '../calls.ts'
import { rateLimitHeaders } from '../headers.ts'
import { toErrorAnswer } from './envelope.ts'
import { type Route, readRoutes } from './routes.ts'

/** The largest request body: 64 KiB. */
const BODY_BYTES_MAX = 65_536

/** A signal that never aborts: REST calls are short, and bounded by the time-outs below them. */
const NEVER = new AbortController().signal

/**
 * Serves the REST paths that the descriptors declare, through the same calls as every other door.
 *
 * @returns the paths served
 */
export async function gateway(
  app: FastifyInstance,
  calls: readonly Call[],
): Promise<ReadonlySet<string>> {
  const routes = readRoutes(calls)
  await app.register(async (scope) => {
    // Bodies come as bytes: what is wrong with one is told after authentication.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      '*',
      { parseAs: 'buffer', bodyLimit: BODY_BYTES_MAX },
      (_request, body, done) => done(null, body),
    )
    for (const route of routes) {
      const options = { bodyLimit: BODY_BYTES_MAX }
      scope.post(route.path, options, (request, reply) => answer(route, request, reply))
    }
  })
  return new Set(routes.map((route) => route.path))
}

async function answer(route: Route, request: FastifyRequest, reply: FastifyReply): Promise<string> {
  const origin = new RestOrigin(route, request)
  try {
    const response = await route.call.unary(undefined, origin)
    tellRateLimit(reply, origin)
    headersOf(response)?.forEach((value, name) => {
      reply.header(name, value)
    })
    reply.header('content-type', 'application/json; charset=utf-8')
    return route.encode(response.message)
  } catch (error) {
    tellRateLimit(reply, origin)
    // Whatever else goes wrong is nobody's answer yet: the door logs it.
    if (!(error instanceof Fault)) throw error
    return sendFault(reply, error)
  }
}

function tellRateLimit(reply: FastifyReply, origin: Origin): void {
  for (const [name, value] of rateLimitHeaders(origin)) reply.header(name, value)
}

/** Answers with the error envelope. */
export function sendFault(reply: FastifyReply, fault: Fault): string {
  const requestId = reply.request.id
  const { status, headers, body } = toErrorAnswer(fault, requestId)
  reply.code(status).headers(headers).header('x-request-id', requestId)
  reply.header('content-type', 'application/json; charset=utf-8')
  return body
}

/**
 * A class, because headers and message are made when they are asked for: this is on the path of every
 * call.
 */
class RestOrigin implements Origin {
  readonly door = 'rest'
  readonly signal = NEVER
  readonly authorization: string | null
  readonly address: string
  readonly requestId: string
  fieldFaults: readonly FieldFault[] | undefined
  rateLimit: Origin['rateLimit']
  readonly #route: Route
  readonly #request: FastifyRequest

  constructor(route: Route, request: FastifyRequest) {
    this.#route = route
    this.#request = request
    this.authorization = request.headers.authorization ?? null
    this.address = request.ip
    this.requestId = request.id
  }

  get header(): Headers {
    const { authorization } = this
    return new Headers(authorization === null ? {} : { authorization })
  }

  readMessage(): Message {
    const { headers, body } = this.#request
    requireJson(headers['content-type'])
    const { message, faults } = this.#route.decode(parseObject(body))
    this.fieldFaults = faults
    return message
  }
}

function requireJson(contentType: string | undefined): void {
  if (contentType === 'application/json') return
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase()
  if (mediaType === 'application/json') return
  throw new Fault('unsupported_media_type', 'Send Content-Type: application/json')
}

function parseObject(body: unknown): Record<string, unknown> {
  try {
    if (Buffer.isBuffer(body) && isUtf8(body)) {
      const value: unknown = JSON.parse(body.toString())
      if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
        return value as Record<string, unknown>
      }
    }
  } catch {
    // Falls through to the one answer for every body that is not a JSON object.
  }
  throw new Fault('malformed_json', 'The body must be one JSON object')
}
