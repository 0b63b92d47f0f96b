import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { ADMIN_TOKEN, useSharedService } from '../../support/service.ts'
import {
  asJson,
  creation,
  envelope,
  exchange,
  GENERATE,
  GET_TRANSACTION,
  golden,
  PATHS,
  send,
} from './rest.ts'

const service = useSharedService()

let key: string

beforeAll(async () => {
  ;({ key } = await service.business())
})

const LOOK_UP = '{"session_id":"1"}'

type Wire = Parameters<typeof send>[1]

/** Sends a look-up with the key, or what is given in its place. */
const ask = (wire: Wire = {}) =>
  send(service.httpUrl, { headers: asJson(key), body: LOOK_UP, ...wire })

/** The response must be this to the byte, and have the request id in its header too. */
async function expectRefused(wire: Wire, status: number, expected: string) {
  const { text, headers, ...answer } = await ask(wire)
  expect([answer.status, golden(text)]).toEqual([status, expected])
  expect(headers['x-request-id']).toBe(JSON.parse(text).request_id)
  return headers
}

describe('400 malformed_json', () => {
  test.each([
    ['', 'The body is empty; send one JSON object, such as {}'],
    ['null', 'The body must be one JSON object'],
    ['['.repeat(60_000), 'The body is not valid JSON: it ends too early, at line 1, column 60001'],
  ])('to a body of %.9j, on every path', async (body, message) => {
    for (const path of PATHS) {
      await expectRefused({ path, body }, 400, envelope('malformed_json', message))
    }
  })

  test.each([
    ['{"session_id":"1","session_id":"1"}', 'session_id'],
    ['{"session_id":"1","session\\u005fid":"2"}', 'session_id'],
    ['{"session_id":"1","more":{"a":[{"b":1,"b":{"c":2}}]}}', 'more.a[0].b'],
    ['{"__proto__":1,"__proto__":2,"session_id":"1"}', '__proto__'],
  ])('to a key that is given twice: %s', async (body, field) => {
    const errors = [{ field, message: 'is given twice' }]
    const message = `The key "${field}" is given twice`
    await expectRefused({ body }, 400, envelope('malformed_json', message, errors))
  })
})

describe('401 unauthorized, with WWW-Authenticate', () => {
  const UNAUTHORIZED = envelope(
    'unauthorized',
    'A valid secret key is required: Authorization: Bearer <secret key>',
  )
  const refused = async (headers: Record<string, string>, body = LOOK_UP) => {
    const answered = await expectRefused({ headers, body }, 401, UNAUTHORIZED)
    expect(answered['www-authenticate']).toBe('Bearer')
  }

  test('without a key, whatever else is wrong with the request', async () => {
    for (const body of [LOOK_UP, '{', '{"session_id":""}']) await refused(asJson(), body)
    await refused({ 'content-type': 'text/plain' })
    await refused({ expect: 'x' })
    await refused({}, '')
  })

  test('with a wrong key, half a key, another scheme or an internal token', async () => {
    const other = `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`
    for (const wrong of [other, key.slice(0, -1), `${key}x`, 'x'.repeat(5_000), '', ADMIN_TOKEN]) {
      await refused(asJson(wrong))
    }
    for (const authorization of [key, `Basic ${key}`, `Bearer ${key} ${key}`]) {
      await refused({ ...asJson(), authorization })
    }
  })

  test('never for the scheme in lower case', async () => {
    const headers = { ...asJson(), authorization: `bearer ${key}` }
    expect((await ask({ headers })).status).toBe(404)
  })
})

test("404 not_found: an unknown session and another business's are the same answer", async () => {
  const [owner, stranger] = [await service.business(), await service.business()]
  const created = await service.post('generateVirtualAccount/', owner.key, creation())
  const { sessionId } = await service.client(SandboxService).simulateTransfer({
    accountNumber: created.body.data.account[0].account_number,
    amountMinor: 100n,
  })
  const look = (as: string, session: string) =>
    ask({ headers: asJson(as), body: JSON.stringify({ session_id: session }) })
  expect((await look(owner.key, sessionId)).status).toBe(200)
  const unknown = await look(stranger.key, `${sessionId.slice(0, -1)}x`)
  const foreign = await look(stranger.key, sessionId)
  for (const { status, text } of [unknown, foreign]) {
    expect([status, golden(text)]).toEqual([
      404,
      envelope('not_found', 'There is no such transaction'),
    ])
  }
  const plain = ({ headers }: typeof unknown) => ({ ...headers, date: '', 'x-request-id': '' })
  expect(plain(foreign)).toEqual(plain(unknown))
})

test.each([
  ['POST', '/'],
  ['POST', '/v2/thirdparty/getTransaction//'],
  ['POST', '/v2/thirdparty/GETTRANSACTION/'],
  ['DELETE', '/inflow.thirdparty.v2.ThirdPartyService/Nothing'],
  ['POST', `/${'x'.repeat(5_000)}`],
])('404 unknown_path: %s %.60s', async (method, path) => {
  for (const body of ['', '{', '{}']) {
    const wire = { method, path, headers: asJson(), body }
    await expectRefused(wire, 404, envelope('unknown_path', 'There is nothing at this path'))
  }
})

describe('405 method_not_allowed, with Allow: POST', () => {
  const methods = ['GET', 'PUT', 'OPTIONS', 'SEARCH']
  test.each(methods)('%s on every path, with a slash and without', async (method) => {
    const expected = envelope('method_not_allowed', 'This path accepts only POST')
    for (const path of PATHS.flatMap((each) => [each, `${each}/?a=b`])) {
      const { allow } = await expectRefused({ method, path, body: '{' }, 405, expected)
      expect(allow).toBe('POST')
    }
  })

  test('HEAD, without a body', async () => {
    const { status, text, headers } = await send(service.httpUrl, { method: 'HEAD' })
    expect([status, text, headers.allow]).toEqual([405, '', 'POST'])
  })
})

test('409 duplicate_reference: a used reference with other details', async () => {
  const { key: own } = await service.business()
  await service.post('generateVirtualAccount/', own, creation())
  for (const other of [
    { email: 'other@example.com' },
    { phone: '08012345679' },
    { firstName: 'Bola' },
    { lastName: 'Okafor' },
    { bank: 'PROVIDUS' },
    { idType: 'bvn', idNumber: '12345678901' },
  ]) {
    const wire = { path: GENERATE, headers: asJson(own), body: JSON.stringify(creation(other)) }
    const message = 'The reference was used before with other details'
    await expectRefused(wire, 409, envelope('duplicate_reference', message))
  }
})

describe('413 payload_too_large', () => {
  const TOO_LARGE = envelope('payload_too_large', 'The body is larger than 64 KiB')
  /** A JSON object of a length in bytes. */
  const objectOf = (bytes: number) => `{"session_id":"1","x":"${'y'.repeat(bytes - 25)}"}`
  const chunksOf = (bytes: number) => objectOf(bytes).match(/.{1,10000}/gs)!

  test('64 KiB are read, and one byte more is not, with the key and without', async () => {
    for (const path of PATHS) {
      expect([200, 404, 422]).toContain((await ask({ path, body: objectOf(65_536) })).status)
      for (const headers of [asJson(key), asJson()]) {
        await expectRefused({ path, headers, body: objectOf(65_537) }, 413, TOO_LARGE)
      }
    }
  })

  test('the bound counts bytes, not characters, also in chunks', async () => {
    const body = JSON.stringify({ session_id: '1', x: 'é'.repeat(40_000) })
    await expectRefused({ body }, 413, TOO_LARGE)
    expect((await ask({ body: chunksOf(65_536) })).status).toBe(404)
    await expectRefused({ body: chunksOf(65_537) }, 413, TOO_LARGE)
  })

  test('a content-length that is too large is refused before the body arrives', async () => {
    const head =
      `POST ${GENERATE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n` +
      `Content-Type: application/json\r\nAuthorization: Bearer ${key}\r\n`
    const answer = await exchange(service.httpUrl, `${head}Content-Length: 999999999999\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1.1 413 /)
    expect(golden(answer.split('\r\n\r\n')[1] ?? '')).toBe(TOO_LARGE)
  })
})

describe('415 unsupported_media_type', () => {
  const refused = (headers: Record<string, string>, message: string, body: string | Buffer) =>
    expectRefused(
      { headers: { authorization: `Bearer ${key}`, ...headers }, body },
      415,
      envelope('unsupported_media_type', message),
    )

  test('a body of another type, or of none', async () => {
    const types = ['text/plain', 'application/jsonp', 'application/x-www-form-urlencoded', ';;;']
    for (const headers of [{}, ...types.map((type) => ({ 'content-type': type }))]) {
      await refused(headers, 'Send Content-Type: application/json', LOOK_UP)
    }
  })

  test('a body with a Content-Encoding', async () => {
    for (const encoding of ['gzip', 'br', 'identity, gzip']) {
      const headers = { 'content-type': 'application/json', 'content-encoding': encoding }
      const body = encoding === 'gzip' ? gzipSync(LOOK_UP) : LOOK_UP
      await refused(headers, 'Send the body without Content-Encoding', body)
    }
  })

  test.each([
    { 'content-type': 'application/json; charset=utf-8' },
    { 'content-type': 'Application/JSON' },
    { 'content-type': 'application/json;charset=UTF-8' },
    { 'content-encoding': 'Identity' },
  ])('%j is accepted', async (headers) => {
    expect((await ask({ headers: { ...asJson(key), ...headers } })).status).toBe(404)
  })
})

test('500 internal reveals nothing of the cause on any path', async () => {
  const { durablePool } = service.database
  const bodies = [creation(), { session_id: '1' }, { reference: '1' }, {}]
  await durablePool.query('alter table account rename to account_gone')
  try {
    for (const [index, body] of bodies.entries()) {
      const wire = { path: `${PATHS[index]}/`, body: JSON.stringify(body) }
      await expectRefused(wire, 500, envelope('internal', 'An internal error occurred'))
    }
  } finally {
    await durablePool.query('alter table account_gone rename to account')
  }
  const again = await ask({ path: GENERATE, body: JSON.stringify(creation()) })
  expect(again.status).toBe(200)
})

describe('what is not HTTP gets the envelope, with X-Request-Id', () => {
  const HOST = 'Host: x\r\nConnection: close\r\n'
  const expectInvalid = async (text: string, status: number, code: string, message: string) => {
    const [head = '', body = ''] = (await exchange(service.httpUrl, text)).split('\r\n\r\n')
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(golden(body)).toBe(envelope(code, message))
    const id = /^x-request-id: (req_[0-9a-z]+)$/im.exec(head)?.[1]
    expect(id).toBe(JSON.parse(body).request_id)
  }

  test.each([
    ['a line that is no request', 'HELLO\r\n\r\n', 'The request is not HTTP'],
    ['an unknown method', `FOO / HTTP/1.1\r\n${HOST}\r\n`, 'The request is not HTTP'],
    [
      'a chunk without a length',
      `POST ${GET_TRANSACTION} HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
      'The request is not HTTP',
    ],
    ['no Host header', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 'The Host header is missing'],
    [
      'a path that does not decode',
      `GET /%zz HTTP/1.1\r\n${HOST}\r\n`,
      'The request could not be read',
    ],
  ])('%s', (_what, text, message) => expectInvalid(text, 400, 'malformed_request', message))

  test('headers over 16 KiB', () => {
    const text = `GET / HTTP/1.1\r\n${HOST}X: ${'x'.repeat(20_000)}\r\n\r\n`
    return expectInvalid(text, 431, 'headers_too_large', 'The headers are larger than 16 KiB')
  })

  test('two Host headers, on every path', async () => {
    const paths = [GET_TRANSACTION, '/inflow.business.v1.BusinessService/GetBusiness', '/healthz']
    for (const path of [...paths, '/metrics', '/docs', '/console', '/nothing']) {
      for (const other of ['Host: x', 'hOST: y', 'Host:']) {
        const text = `GET ${path} HTTP/1.1\r\n${HOST}${other}\r\n\r\n`
        await expectInvalid(text, 400, 'malformed_request', 'There is more than one Host header')
      }
    }
  })
})
