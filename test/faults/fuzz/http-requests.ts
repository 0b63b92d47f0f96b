import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { gzipSync } from 'node:zlib'
import type { DescMethod } from '@bufbuild/protobuf'
import { pathOf } from '../../protocols/matrix/protocols.ts'
import { credential } from './credentials.ts'
import { binaryOf, jsonBodyOf, mutate } from './messages.ts'
import type { Random } from './random.ts'
import { hostileText, type World } from './words.ts'

/** Whether requests carry a credential that opens what they ask for. */
export type Admission = 'wrong' | 'right'

export interface HttpRequest {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: Buffer | undefined
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** No answer counts after this. */
const LIMIT_MS = 120_000

/** Streams that go on are read for this long. */
const STREAM_MS = 40

const METHODS = ['GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND', 'QUERY', 'SEARCH']
const MEDIA_TYPES = [
  'application/json; charset=utf-8',
  'APPLICATION/JSON',
  'text/plain',
  'application/xml',
  '',
  'multipart/form-data; boundary=x',
  'application/x-www-form-urlencoded',
  'application/grpc',
  'application/json;',
  'application/jsonx',
  'a/b/c',
  '\u00ff',
  'application/grpc-web-text',
]

/** A request of a REST path, or of one that looks like it. */
export function restRequest(
  random: Random,
  world: World,
  rpc: { readonly method: DescMethod; readonly path: string },
  admission: Admission,
): HttpRequest {
  const authorization = credential(random, world, rpc.method, admission)
  const odd = random.chance(0.2)
  return {
    method: random.chance(0.1) ? random.pick(METHODS) : 'POST',
    path: odd ? oddPath(random, rpc.path) : rpc.path + random.pick(['', '/']),
    headers: {
      ...(authorization !== undefined && { authorization }),
      ...(random.chance(0.95) && {
        'content-type': random.chance(0.85) ? 'application/json' : random.pick(MEDIA_TYPES),
      }),
      ...oddHeaders(random),
    },
    body: random.chance(0.02) ? undefined : jsonBodyOf(random, world, rpc.method.input),
  }
}

/** A request in one of the protocols of Connect. */
export function connectRequest(
  random: Random,
  world: World,
  method: DescMethod,
  admission: Admission,
): HttpRequest {
  const path = pathOf(method)
  const authorization = credential(random, world, method, admission)
  const protocol = random.pick(PROTOCOLS)
  const json = protocol.includes('json')
  const message = json
    ? jsonBodyOf(random, world, method.input)
    : binaryOf(random, world, method.input)
  const headers: Record<string, string> = {
    ...(authorization !== undefined && { authorization }),
    'content-type': protocol,
    ...(random.chance(0.5) && { 'connect-protocol-version': random.pick(['1', '1', '2', 'x']) }),
    ...(random.chance(0.05) && {
      'connect-timeout-ms': random.pick(['5000', '-1', 'x', '9'.repeat(20)]),
    }),
    ...(random.chance(0.05) && {
      'content-encoding': random.pick(['gzip', 'br', 'zstd', 'identity', 'x']),
    }),
    ...(random.chance(0.05) && {
      'grpc-timeout': random.pick(['5S', '1', '-1S', 'x', '99999999H']),
    }),
    ...oddHeaders(random),
  }
  if (random.chance(0.08)) return connectGet(random, path, headers, message, json)
  const enveloped = /grpc-web|connect\+/.test(protocol)
  const body = enveloped ? envelope(random, message) : message
  const asText = protocol.includes('text') ? Buffer.from(body.toString('base64')) : body
  const sent =
    headers['content-encoding'] === 'gzip' && random.chance(0.7) ? gzipSync(asText) : asText
  return { method: random.chance(0.03) ? random.pick(METHODS) : 'POST', path, headers, body: sent }
}

const PROTOCOLS = [
  'application/json',
  'application/json',
  'application/proto',
  'application/proto',
  'application/connect+json',
  'application/connect+proto',
  'application/grpc-web+proto',
  'application/grpc-web+json',
  'application/grpc-web',
  'application/grpc-web-text',
]

function connectGet(
  random: Random,
  path: string,
  { 'content-type': _type, ...headers }: Record<string, string>,
  message: Buffer,
  json: boolean,
): HttpRequest {
  const query = new URLSearchParams({
    connect: random.pick(['v1', 'v1', 'v2', '']),
    encoding: random.chance(0.9) ? (json ? 'json' : 'proto') : hostileText(random),
    base64: random.pick(['1', '1', '0', 'x']),
    message: message.toString('base64url').slice(0, 6_000),
    ...(random.chance(0.1) && { compression: random.pick(['gzip', 'x', 'identity']) }),
  })
  return { method: 'GET', path: `${path}?${query}`, headers, body: undefined }
}

/** Flags and length before a message, some of them wrong. */
export function envelope(random: Random, message: Buffer): Buffer {
  const flags = random.chance(0.9) ? 0 : random.pick([1, 2, 0x80, 0xff])
  const length = random.chance(0.92)
    ? message.length
    : random.pick([0, 1, message.length + 1, 2 ** 31, 2 ** 32 - 1, 5 * 1024 * 1024])
  const head = Buffer.alloc(5)
  head.writeUInt8(flags, 0)
  head.writeUInt32BE(length, 1)
  const compressed = flags === 1 && random.chance(0.5) ? gzipSync(message) : message
  if (compressed !== message && random.chance(0.8)) head.writeUInt32BE(compressed.length, 1)
  const whole = Buffer.concat([head, compressed])
  if (random.chance(0.04)) return mutate(random, whole)
  return random.chance(0.03) ? Buffer.concat([whole, whole]) : whole
}

function oddPath(random: Random, path: string): string {
  const odd = encodeURIComponent(hostileText(random).toWellFormed()).slice(0, 300)
  return random.pick([
    `${path}//`,
    `/${path}`,
    `${path}?${odd}=${odd}`,
    path.toUpperCase(),
    `${path}/${odd}`,
    `/v2/thirdparty/${odd}`,
    `/v2/thirdparty/../thirdparty${path.slice(14)}`,
    '/v2/thirdparty',
    '/v2/thirdparty/%',
    '/v2/thirdparty/%ff%fe',
    `${path}#${odd}`,
    `/${odd}`,
    '/',
    '*',
    '/healthz',
    '/readyz',
    '/metrics',
    '/inflow.account.v1.AccountService',
    '/favicon.ico',
    `${path}/${'x'.repeat(9_000)}`,
  ])
}

function oddHeaders(random: Random): Record<string, string> {
  if (random.chance(0.85)) return {}
  const text = hostileText(random)
    .replaceAll(/[^\t\x20-\x7e]/g, '?')
    .slice(0, 4_000)
  return random.pick<Record<string, string>>([
    { host: text },
    { cookie: text },
    { 'x-request-id': text },
    { 'x-forwarded-for': text },
    { expect: random.pick(['100-continue', 'the worst']) },
    { 'transfer-encoding': 'chunked' },
    { 'accept-encoding': text, accept: text },
    { origin: text, 'access-control-request-method': 'POST' },
    { upgrade: 'websocket', connection: 'upgrade' },
    { 'accept-version': text },
    { 'content-encoding': 'gzip' },
    { 'x-http-method-override': 'DELETE' },
    Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`x-many-${index}`, 'y'])),
  ])
}

/** Sends requests over connections that are kept. */
export function createHttpSender(baseUrl: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  const once = ({ method, path, headers: wanted, body }: HttpRequest): Promise<HttpAnswer> =>
    new Promise((resolve, reject) => {
      const headers =
        body === undefined || wanted['transfer-encoding'] !== undefined
          ? wanted
          : { ...wanted, 'content-length': body.length }
      const { hostname, port } = new URL(baseUrl)
      const outgoing = request(
        { hostname, port, method, path, headers, agent, timeout: LIMIT_MS },
        (incoming) => {
          const chunks: Buffer[] = []
          const finish = () => {
            clearTimeout(timer)
            const { statusCode = 0, headers: answered } = incoming
            resolve({ status: statusCode, headers: answered, body: Buffer.concat(chunks) })
          }
          // A subscription answers for as long as it is listened to.
          const timer = setTimeout(
            () => {
              finish()
              outgoing.destroy()
            },
            path.endsWith('/Subscribe') ? STREAM_MS : LIMIT_MS,
          )
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
          incoming.on('end', finish)
          incoming.on('error', finish)
        },
      )
      outgoing.on('upgrade', (_incoming, socket) => socket.destroy())
      outgoing.on('timeout', () => outgoing.destroy(new Error(`no answer in ${LIMIT_MS} ms`)))
      outgoing.on('error', (error) =>
        reject(Object.assign(error, { reused: outgoing.reusedSocket })),
      )
      outgoing.end(body)
    })
  return {
    async send(wanted: HttpRequest): Promise<HttpAnswer> {
      for (let attempt = 1; ; attempt++) {
        try {
          return await once(wanted)
        } catch (error) {
          // A connection that the server closed meanwhile says nothing of this request.
          if (!(error as { reused?: boolean }).reused || attempt === 5) throw error
        }
      }
    },
    close: () => agent.destroy(),
  }
}
