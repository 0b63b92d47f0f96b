import { type ClientHttp2Session, connect, constants, type IncomingHttpHeaders } from 'node:http2'
import type { DescMethod } from '@bufbuild/protobuf'
import { pathOf } from '../../protocols/matrix/protocols.ts'
import { credential } from './credentials.ts'
import { type Admission, envelope } from './http-requests.ts'
import { binaryOf } from './messages.ts'
import type { Random } from './random.ts'
import { hostileText, type World } from './words.ts'

export interface GrpcRequest {
  readonly headers: Record<string, string>
  readonly body: Buffer
  /** How the caller ends: its half, by a reset at once, or not at all. */
  readonly end: 'half' | 'reset' | 'never'
}

export interface GrpcAnswer {
  /** HTTP status; undefined when there was none. */
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly trailers: IncomingHttpHeaders
  /** HTTP/2 error code of the stream; 0: it ended well. */
  readonly reset: number
  /** The caller had seen enough. */
  readonly abandoned: boolean
}

const LIMIT_MS = 120_000

/** Streams that go on, and calls that never end, are given up after this. */
const PATIENCE_MS = 40

const SESSIONS = 4

export function grpcRequest(
  random: Random,
  world: World,
  method: DescMethod,
  admission: Admission,
): GrpcRequest {
  const authorization = credential(random, world, method, admission)
  const body = envelope(random, binaryOf(random, world, method.input))
  const text = hostileText(random)
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .slice(0, 2_000)
  const headers: Record<string, string> = {
    ':method': random.chance(0.01) ? random.pick(['GET', 'PUT', 'OPTIONS']) : 'POST',
    ':path': random.chance(0.97) ? pathOf(method) : random.pick(ODD_PATHS),
    'content-type': random.chance(0.96)
      ? random.pick(['application/grpc', 'application/grpc+proto'])
      : random.pick([
          'application/json',
          'text/plain',
          'application/grpcx',
          'application/grpc+json',
        ]),
    te: 'trailers',
    ...(authorization !== undefined && { authorization }),
    ...(random.chance(0.06) && {
      'grpc-timeout': random.pick(['5S', '1m', '1u', '0S', 'x', '', '-1S', '999999999S']),
    }),
    ...(random.chance(0.06) && {
      'grpc-encoding': random.pick(['gzip', 'deflate', 'identity', 'br', text]),
    }),
    ...(random.chance(0.04) && { 'x-odd-bin': random.pick(['!!!', 'AAAA', '====', text]) }),
    ...(random.chance(0.04) && { 'x-odd': text }),
  }
  const end = random.chance(0.96) ? 'half' : random.pick(['reset', 'never'] as const)
  return { headers, body: random.chance(0.02) ? Buffer.alloc(0) : body, end }
}

const ODD_PATHS = [
  '/',
  '/x',
  '/inflow.account.v1.AccountService/',
  '/inflow.account.v1.AccountService/Nothing',
  '/grpc.health.v1.Health/Check',
  '/grpc.health.v1.Health/Watch',
  '/grpc.health.v1.Health/List',
  '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  '//',
  '/__proto__/toString',
  '/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo',
]

/** Sends frames as they are, over a few connections. */
export function createGrpcSender(url: string) {
  const sessions: (ClientHttp2Session | undefined)[] = Array(SESSIONS).fill(undefined)
  const session = (index: number): ClientHttp2Session => {
    const known = sessions[index]
    if (known && !known.closed && !known.destroyed) return known
    const fresh = connect(url)
    fresh.on('error', () => undefined)
    sessions[index] = fresh
    return fresh
  }
  return {
    send: (wanted: GrpcRequest, turn: number) => exchange(session(turn % SESSIONS), wanted),
    close: () => {
      for (const open of sessions) open?.destroy()
    },
  }
}

function exchange(session: ClientHttp2Session, wanted: GrpcRequest): Promise<GrpcAnswer> {
  return new Promise((resolve, reject) => {
    const stream = session.request(wanted.headers, { endStream: false })
    let status: number | undefined
    let headers: IncomingHttpHeaders = {}
    let trailers: IncomingHttpHeaders = {}
    let abandoned = false
    const abandon = () => {
      abandoned = true
      stream.close(constants.NGHTTP2_CANCEL)
    }
    const endless = /Subscribe|Watch|ServerReflectionInfo/.test(wanted.headers[':path'] ?? '')
    const timer = setTimeout(
      () => {
        if (wanted.end === 'never' || endless) return abandon()
        stream.destroy()
        reject(new Error(`no answer in ${LIMIT_MS} ms`))
      },
      wanted.end === 'never' || endless ? PATIENCE_MS : LIMIT_MS,
    )
    stream.on('response', (answered) => {
      headers = answered
      status = answered[':status']
    })
    stream.on('trailers', (answered) => {
      trailers = answered
    })
    stream.on('data', () => undefined)
    // `close` reports a reset too.
    stream.on('error', () => undefined)
    stream.on('close', () => {
      clearTimeout(timer)
      resolve({ status, headers, trailers, reset: stream.rstCode ?? 0, abandoned })
    })
    stream.write(wanted.body)
    if (wanted.end === 'half') stream.end()
    if (wanted.end === 'reset') abandon()
  })
}
