import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { create, type DescMethod, toBinary, toJson } from '@bufbuild/protobuf'
import { ConnectError } from '@connectrpc/connect'
import { errorFromJson } from '@connectrpc/connect/protocol-connect'
import { findTrailerError } from '@connectrpc/connect/protocol-grpc'
import { REASONS, type Reason } from '../../../src/core/errors.ts'
import { restPath } from '../../../src/protobuf/contract-services.ts'
import { framed } from '../grpc/http2-frames.ts'
import {
  type Addresses,
  type Outcome,
  PROTOCOLS,
  type ProtocolCall,
  pathOf,
  toOutcome,
} from './protocols.ts'

/** What came back over the wire. */
export interface WireOutcome {
  /** The HTTP status; undefined over gRPC. */
  readonly status?: number | undefined
  readonly code: string
  readonly reason: string
  /** All that came back, without what differs from call to call: request ids, times, rate limits. */
  readonly bytes: string
}

export type WireProtocol = (at: Addresses, call: ProtocolCall) => Promise<WireOutcome>

interface HttpAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

const agent = new Agent({ keepAlive: true, maxSockets: 32 })

/** Every protocol that serves a method, as bytes of its own. Paths are those of the contract. */
export function wireProtocolsOf(method: DescMethod): [string, WireProtocol][] {
  const json = connect('json')
  const protocols: [string, WireProtocol][] = [
    ['gRPC', grpc],
    ['Connect in JSON', json],
    ['Connect in binary', connect('proto')],
    ['gRPC-Web', grpcWeb],
  ]
  if (method.idempotency === 1 && method.methodKind === 'unary') {
    protocols.push(['Connect by GET', connectGet])
  }
  const path = restPath(method)
  if (path !== undefined)
    protocols.push(['REST', rest(`${path}/`)], ['REST without slash', rest(path)])
  return protocols
}

const grpc: WireProtocol = async (at, call) => {
  const outcome = await PROTOCOLS['gRPC from grpc-js']!(at, call)
  return { ...codeOf(outcome), bytes: JSON.stringify(outcome) }
}

function connect(codec: 'json' | 'proto'): WireProtocol {
  return async ({ httpUrl }, { method, request, authorization }) => {
    const message = create(method.input, request)
    const bytes =
      codec === 'json'
        ? Buffer.from(JSON.stringify(toJson(method.input, message)))
        : Buffer.from(toBinary(method.input, message))
    const streams = method.methodKind !== 'unary'
    const headers = {
      'content-type': `application/${streams ? 'connect+' : ''}${codec}`,
      'connect-protocol-version': '1',
      ...(authorization !== undefined && { authorization }),
    }
    const body = streams ? framed(bytes) : bytes
    const answer = await post(httpUrl, pathOf(method), headers, body, streams)
    return { status: answer.status, ...connectCode(answer, streams), bytes: canonical(answer) }
  }
}

const connectGet: WireProtocol = async ({ httpUrl }, { method, request, authorization }) => {
  const message = JSON.stringify(toJson(method.input, create(method.input, request)))
  const query = new URLSearchParams({ connect: 'v1', encoding: 'json', message })
  const headers = { ...(authorization !== undefined && { authorization }) }
  const answer = await post(httpUrl, `${pathOf(method)}?${query}`, headers, undefined)
  return { status: answer.status, ...connectCode(answer, false), bytes: canonical(answer) }
}

function connectCode({ status, body }: HttpAnswer, streams: boolean) {
  const text = streams ? lastFrame(body, 2) : status === 200 ? undefined : body.toString()
  const parsed = text === undefined || text === '' ? {} : JSON.parse(text)
  const error = streams ? parsed.error : text && parsed
  if (error === undefined) return OPEN
  return codeOf(toOutcome(errorFromJson(error, undefined, new ConnectError('no error', 13))))
}

const grpcWeb: WireProtocol = async ({ httpUrl }, { method, request, authorization }) => {
  const headers = {
    'content-type': 'application/grpc-web+proto',
    ...(authorization !== undefined && { authorization }),
  }
  const body = framed(Buffer.from(toBinary(method.input, create(method.input, request))))
  const streams = method.methodKind !== 'unary'
  const answer = await post(httpUrl, pathOf(method), headers, body, streams)
  const trailers = new Headers()
  for (const line of (lastFrame(answer.body, 0x80) ?? '').split('\r\n')) {
    const [name = '', value = ''] = line.split(/: ?(.*)/)
    if (name !== '') trailers.set(name, value)
  }
  for (const [name, value] of Object.entries(answer.headers)) {
    if (name.startsWith('grpc-')) trailers.set(name, `${value}`)
  }
  const error = findTrailerError(trailers)
  const code = error === undefined ? OPEN : codeOf(toOutcome(error))
  return { status: answer.status, ...code, bytes: canonical(answer) }
}

function rest(path: string): WireProtocol {
  return async ({ httpUrl }, { method, request, authorization }) => {
    const headers = {
      'content-type': 'application/json',
      ...(authorization !== undefined && { authorization }),
    }
    const json = toJson(method.input, create(method.input, request)) as Record<string, unknown>
    const answer = await post(httpUrl, path, headers, Buffer.from(JSON.stringify(json)))
    const { code: reason } = JSON.parse(answer.body.toString()) as { code?: Reason }
    const code = reason === undefined ? OPEN : { code: REASONS[reason][0], reason }
    return { status: answer.status, ...code, bytes: canonical(answer) }
  }
}

const OPEN = { code: 'OK', reason: '' }

function codeOf(outcome: Outcome) {
  return 'messages' in outcome ? OPEN : { code: outcome.code, reason: outcome.reason }
}

/** The text of the frame with a flag, which ends a stream. */
function lastFrame(body: Buffer, flag: number): string | undefined {
  for (let at = 0; at + 5 <= body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1)
    if (((body[at] ?? 0) & flag) !== 0) return body.toString('utf8', at + 5, end)
    at = end
  }
  return undefined
}

/** @param first whether the first bytes of the body are enough: a stream that is open never ends */
function post(
  baseUrl: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: Buffer | undefined,
  first = false,
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST'
    const outgoing = httpRequest(baseUrl + path, { method, headers, agent }, (answer) => {
      const chunks: Buffer[] = []
      const finish = () => {
        const { statusCode: status = 0, headers: received } = answer
        resolve({ status, headers: received, body: Buffer.concat(chunks) })
      }
      answer.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        if (!first) return
        finish()
        outgoing.destroy()
      })
      answer.on('end', finish)
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

/** Headers that differ from call to call. */
const VARYING = /^(date|x-request-id|ratelimit.*|retry-after|connection|keep-alive)$/

function canonical({ status, headers, body }: HttpAnswer): string {
  const kept = Object.entries(headers).filter(([name]) => !VARYING.test(name))
  return (
    `${status} ${JSON.stringify(kept)} ${body.toString('latin1')}`
      // The details of an error are protobuf in base64, and contain the request id.
      .replace(/("value":"|grpc-status-details-bin(?:: |",")?)([A-Za-z0-9+/]{20,}={0,2})/g, decoded)
      .replace(/req_[0-9a-z]{24,}/g, 'req_*')
  )
}

const decoded = (_all: string, name: string, value: string) =>
  name + Buffer.from(value, 'base64').toString('latin1')
