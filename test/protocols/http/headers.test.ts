import { describe, expect, test } from 'vitest'
import { ADMIN_TOKEN, useService, useSharedService } from '../../support/service.ts'
import { asJson, exchange, GET_TRANSACTION, send, type WireAnswer } from '../rest/rest.ts'

const ORIGIN = 'https://app.example.com'

const closed = useSharedService()
const open = useService({ CORS_ORIGINS: `${ORIGIN}, http://localhost:5173` })

const EXPECTED = {
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
}

const UNARY = '/inflow.business.v1.BusinessService/ListBusinesses'
const STREAM = '/inflow.event.v1.EventService/Subscribe'
const admin = { authorization: `Bearer ${ADMIN_TOKEN}` }
const frame = Buffer.alloc(5)

type Wire = Parameters<typeof send>[1]

const connect = (contentType: string, more: Record<string, string> = admin) => ({
  path: UNARY,
  headers: { ...more, 'content-type': contentType },
  body: contentType.endsWith('json') ? '{}' : frame,
})
const get = (path: string) => () => ({ method: 'GET', path })
const withKey = (body: string, path = GET_TRANSACTION) => {
  return (key: string) => ({ path, headers: asJson(key), body })
}

/** Every kind of answer that the server gives. */
const ANSWERS: [string, number, (key: string) => Wire][] = [
  ['a success', 200, withKey('{}', '/v2/thirdparty/listEvents/')],
  ['a body too large', 413, withKey('x'.repeat(70_000))],
  ['another method', 405, get(GET_TRANSACTION)],
  ['a path that does not decode', 400, () => ({ path: '/%zz' })],
  ['health', 200, get('/healthz')],
  ['metrics', 200, get('/metrics')],
  ['Connect', 200, () => connect('application/json')],
  ['Connect, refused', 401, () => connect('application/json', {})],
  ['a stream, refused', 200, () => ({ ...connect('application/connect+proto', {}), path: STREAM })],
  ['an unknown protocol', 415, () => connect('text/plain')],
]

function expectSecure(headers: WireAnswer['headers']): void {
  expect(headers).toMatchObject(EXPECTED)
  expect(headers['x-request-id']).toMatch(/^req_/)
  for (const name of ['server', 'x-powered-by', 'strict-transport-security']) {
    expect(headers).not.toHaveProperty(name)
  }
}

test.each(ANSWERS)(
  '%s has the security headers, and does not name the software',
  async (_, status, make) => {
    const { key } = await closed.business()
    const answer = await send(closed.httpUrl, make(key))
    expect(answer.status, answer.text).toBe(status)
    expectSecure(answer.headers)
  },
)

test.each([
  ['no HTTP', 'NONSENSE\r\n\r\n', 400],
  ['headers too large', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
])('what never becomes a request has them too: %s', async (_, text, status) => {
  const answer = await exchange(closed.httpUrl, text)
  const [head = ''] = answer.split('\r\n\r\n')
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  const headers = Object.fromEntries(
    head
      .split('\r\n')
      .slice(1)
      .map((line) => line.split(/: (.*)/)),
  )
  expectSecure(headers)
})

describe('scripts of web pages', () => {
  const ask = (path: string, origin: string, headers = 'authorization,content-type') => ({
    method: 'OPTIONS',
    path,
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': headers,
    },
  })
  const listOf = (text: unknown) => String(text).toLowerCase().split(/, */)

  test.each([GET_TRANSACTION, UNARY])(
    '%s: a page that is allowed may ask with what the clients send',
    async (path) => {
      const answer = await send(open.httpUrl, ask(path, ORIGIN))
      expect([answer.status, answer.text]).toEqual([204, ''])
      expect(answer.headers).toMatchObject({
        'access-control-allow-origin': ORIGIN,
        vary: expect.stringContaining('Origin'),
      })
      expect(answer.headers).not.toHaveProperty('access-control-allow-credentials')
      expect(listOf(answer.headers['access-control-allow-methods'])).toContain('post')
      expect(listOf(answer.headers['access-control-allow-headers'])).toEqual(
        expect.arrayContaining([
          'authorization',
          'content-type',
          'connect-protocol-version',
          'connect-timeout-ms',
          'x-grpc-web',
          'x-user-agent',
          'grpc-timeout',
        ]),
      )
      expectSecure(answer.headers)
    },
  )

  test('an allowed origin may read responses, errors and their headers', async () => {
    const { key } = await open.business()
    for (const body of ['{"session_id":"1"}', '{']) {
      const headers = { ...asJson(key), origin: 'http://localhost:5173' }
      const answer = await send(open.httpUrl, { headers, body })
      expect(answer.headers['access-control-allow-origin']).toBe('http://localhost:5173')
      expect(listOf(answer.headers['access-control-expose-headers'])).toEqual(
        expect.arrayContaining([
          'x-request-id',
          'retry-after',
          'grpc-status',
          'grpc-message',
          'grpc-status-details-bin',
        ]),
      )
    }
  })

  test.each(['https://app.example.com.evil.example', 'http://app.example.com', 'null'])(
    '%s is not the page that is allowed',
    async (origin) => {
      for (const wire of [ask(GET_TRANSACTION, origin), { headers: { origin }, body: '{}' }]) {
        const answer = await send(open.httpUrl, wire)
        expect(Object.keys(answer.headers).filter((name) => /^access-control/.test(name))).toEqual(
          [],
        )
        expect(answer.headers.vary).toContain('Origin')
      }
    },
  )

  test('without the setting no origin is allowed, and there is no preflight', async () => {
    const answer = await send(closed.httpUrl, ask(GET_TRANSACTION, ORIGIN))
    expect(answer.status).toBe(405)
    expect(Object.keys(answer.headers).filter((name) => /^access-control/.test(name))).toEqual([])
  })
})
