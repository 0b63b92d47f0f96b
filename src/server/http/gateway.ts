import {
  create,
  type DescField,
  type DescMessage,
  getOption,
  type Message,
  ScalarType,
  toJson,
} from '@bufbuild/protobuf'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { decimal } from '../../../gen/inflow/type/v1/decimal_pb.ts'
import { Fault } from '../../core/errors.ts'
import { restPath } from '../../protobuf/contract-services.ts'
import { restNameOf } from '../../protobuf/values.ts'
import { type CallContext, type Decoded, headersOf, type Invoker } from '../invokers.ts'
import { compileFindUnknown, type FindUnknown, parseBody } from '../json.ts'
import { rateLimitHeaders, toErrorResponse } from './responses.ts'

/** The largest body of a request with a secret key, and of a bank's notification: 64 KiB. */
export const BODY_BYTES_MAX = 65_536

/** A signal that never aborts: the time-outs of their SQL statements bound REST calls. */
const NEVER = new AbortController().signal

/**
 * Serves the REST paths that the descriptors declare, through the same invokers as the other protocols.
 *
 * @returns the paths served
 */
export async function gateway(
  app: FastifyInstance,
  calls: readonly Invoker[],
): Promise<ReadonlySet<string>> {
  const routes = readRoutes(calls)
  await app.register(async (scope) => {
    keepBytes(scope, BODY_BYTES_MAX)
    for (const route of routes) {
      const options = { bodyLimit: BODY_BYTES_MAX }
      scope.post(route.path, options, (request, reply) => respond(route, request, reply))
    }
  })
  return new Set(routes.map((route) => route.path))
}

/** Leaves bodies as bytes, to be parsed after the caller is authenticated. */
export function keepBytes(scope: FastifyInstance, bodyLimit: number): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser(
    // JSON is named although '*' includes it: Fastify would search for the parser of an unnamed type at each request.
    ['application/json', '*'],
    { parseAs: 'buffer', bodyLimit },
    (_request, body, done) => done(null, body),
  )
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

/** The context of a REST call. It creates headers only when they are read, because every call has a context. */
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
    // Node joins the values of a repeated header, and a joined traceparent is malformed and therefore ignored.
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
  /** Writes every field except unset fields with explicit presence. */
  readonly encode: (response: Message) => string
}

/** Reads `google.api.http` from the descriptors. */
export function readRoutes(invokers: readonly Invoker[]): readonly Route[] {
  return invokers.flatMap((invoker) => {
    const path = restPath(invoker.method)
    if (path === undefined) return []
    const decode = compileDecoder(invoker.method.input, compileFindUnknown(invoker.method))
    const encode = (response: Message) =>
      JSON.stringify(toJson(invoker.method.output, response, { alwaysEmitImplicit: true }))
    return [{ path, invoker, decode, encode }]
  })
}

type Decoder = (body: Readonly<Record<string, unknown>>) => Decoded

/** The fault of a value. */
interface ValueFault {
  /** The path inside the field, such as `[0].name`; empty: the field itself. */
  readonly at: string
  readonly message: string
}

/** The value of a field, or its faults. */
type Result = { readonly value: unknown } | { readonly faults: readonly ValueFault[] }

type Read = (value: unknown) => Result

/**
 * Compiles a decoder of JSON objects. protobuf's own parser stops at the first field of a wrong type; this decoder reports
 * all of them. Null means absent.
 *
 * @param findUnknown finds the fields that are refused because the schema does not have them
 * @throws for a schema with fields of types that REST requests do not use
 */
export function compileDecoder(schema: DescMessage, findUnknown: FindUnknown = () => []): Decoder {
  const read = compileObject(schema)
  return (body) => {
    const { message, faults } = read(body)
    const mistyped = faults.map((each) => ({ field: each.at, message: each.message }))
    return { message, fieldFaults: [...findUnknown(body), ...mistyped] }
  }
}

function compileObject(schema: DescMessage) {
  const fields = schema.fields.map((field) => ({
    name: restNameOf(field),
    // As in protobuf's JSON, both names are accepted.
    otherName: restNameOf(field) === field.name ? field.jsonName : field.name,
    localName: field.localName,
    group: field.oneof?.localName,
    read: readerOf(field),
  }))
  return (body: Readonly<Record<string, unknown>>) => {
    const message = create(schema) as Message & Record<string, unknown>
    const faults: ValueFault[] = []
    let given: Record<string, string> | undefined
    for (const { name, otherName, localName, group, read } of fields) {
      const key = Object.hasOwn(body, name) ? name : otherName
      const raw = Object.hasOwn(body, key) ? body[key] : undefined
      if (raw === undefined || raw === null) continue
      const first = group && given?.[group]
      if (first) faults.push({ at: name, message: `must not be given together with ${first}` })
      if (group) given = { ...given, [group]: name }
      const result = read(raw)
      if ('faults' in result) faults.push(...within(name, result.faults))
      else if (group) message[group as never] = { case: localName, value: result.value } as never
      else message[localName as never] = result.value as never
    }
    return { message, faults }
  }
}

function within(path: string, faults: readonly ValueFault[]): ValueFault[] {
  return faults.map(({ at, message }) => ({ at: path + at, message }))
}

function readerOf(field: DescField): Read {
  if (field.fieldKind === 'scalar') {
    if (field.scalar === ScalarType.STRING)
      return getOption(field, decimal) ? readDecimal : readText
    if (field.scalar === ScalarType.BOOL) return readBoolean
    if (field.scalar === ScalarType.INT32) return (value) => readWhole(value, 2 ** 31 - 1, Number)
    if (field.scalar === ScalarType.INT64) {
      return (value) => readWhole(value, Number.MAX_SAFE_INTEGER, BigInt)
    }
  }
  if (field.fieldKind === 'list' && field.listKind === 'message') return readList(field.message)
  if (field.fieldKind === 'message') return readMessage(field.message)
  if (field.fieldKind === 'list' && field.listKind === 'scalar') {
    if (field.scalar === ScalarType.STRING) return readTextList
  }
  if (field.fieldKind === 'map' && field.mapKind === 'scalar') return readTexts
  throw new Error(`${field.parent.typeName}.${field.name} has a type that REST requests do not use`)
}

const expect = (expected: string): Result => ({
  faults: [{ at: '', message: `must be ${expected}` }],
})

const readText: Read = (value) => (typeof value === 'string' ? { value } : expect('a string'))

const readBoolean: Read = (value) =>
  typeof value === 'boolean' ? { value } : expect('true or false')

const readTextList: Read = (value) =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')
    ? { value }
    : expect('a list of strings')

/** A number becomes the text that JavaScript prints for it; validation refuses texts that are not plain decimals. */
const readDecimal: Read = (value) => {
  if (typeof value === 'string') return { value }
  return typeof value === 'number' ? { value: `${value}` } : expect('a decimal string or a number')
}

function readWhole(value: unknown, max: number, convert: (value: number) => unknown): Result {
  const fits = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) <= max
  return fits ? { value: convert(value) } : expect('a whole number')
}

/** An object whose values are texts. */
const readTexts: Read = (value) => {
  const isOfTexts =
    isObject(value) && Object.values(value).every((text) => typeof text === 'string')
  return isOfTexts ? { value: { ...value } } : expect('an object of strings')
}

function readMessage(schema: DescMessage): Read {
  const read = compileObject(schema)
  return (value) => {
    if (!isObject(value)) return expect('an object')
    const { message, faults } = read(value)
    return faults.length > 0 ? { faults: within('.', faults) } : { value: message }
  }
}

/** A list of objects. */
function readList(schema: DescMessage): Read {
  const read = compileObject(schema)
  return (value) => {
    if (!Array.isArray(value) || !value.every(isObject)) return expect('a list of objects')
    const items = value.map((item) => read(item))
    const faults = items.flatMap((item, index) => within(`[${index}].`, item.faults))
    return faults.length > 0 ? { faults } : { value: items.map(({ message }) => message) }
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
