import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { ADMIN_TOKEN, useSharedService } from '../../support/service.ts'
import {
  asJson,
  creation,
  exchange,
  GENERATE,
  GET_TRANSACTION,
  golden,
  PATHS,
  send,
  until,
} from './rest.ts'

const service = useSharedService()

const UNAUTHORIZED =
  '{"status":false,"message":"A valid secret key is required: Authorization: Bearer <secret key>","code":"unauthorized","request_id":"*"}'
const NOT_FOUND =
  '{"status":false,"message":"There is no such transaction","code":"not_found","request_id":"*"}'
const malformed = (text: string) =>
  `{"status":false,"message":"${text}","code":"malformed_json","request_id":"*"}`
const OBJECT = malformed('The body must be one JSON object')
const NOT_JSON = 'The body is not valid JSON'
const MEDIA_TYPE =
  '{"status":false,"message":"Send Content-Type: application/json","code":"unsupported_media_type","request_id":"*"}'
const METHOD =
  '{"status":false,"message":"This path accepts only POST","code":"method_not_allowed","request_id":"*"}'
const UNKNOWN_PATH =
  '{"status":false,"message":"There is nothing at this path","code":"unknown_path","request_id":"*"}'

describe('400 malformed_json', () => {
  test.each([
    ['nothing', '', malformed('The body is empty; send one JSON object, such as {}')],
    ['no JSON', '{', malformed(`${NOT_JSON}: it ends too early, at line 1, column 2`)],
    ['an array', '[]', OBJECT],
    ['a string', '"{}"', OBJECT],
    ['a number', '1', OBJECT],
    ['null', 'null', OBJECT],
    ['two objects', '{}{}', malformed(`${NOT_JSON}: see line 1, column 3`)],
    ['other bytes', Buffer.from([0x7b, 0xff, 0x7d]), malformed('The body is not UTF-8')],
    [
      'arrays as deep as fit',
      '['.repeat(60_000),
      malformed(`${NOT_JSON}: it ends too early, at line 1, column 60001`),
    ],
  ])('a body of %s', async (_what, body, expected) => {
    const { key } = await service.business()
    for (const path of PATHS) {
      const answer = await send(service.httpUrl, { path, headers: asJson(key), body })
      expect([answer.status, golden(answer.text)]).toEqual([400, expected])
    }
  })
})

describe('401 unauthorized, with WWW-Authenticate', () => {
  const refused = async (headers: Record<string, string>, body = '{"session_id":"1"}') => {
    const answer = await send(service.httpUrl, { headers, body })
    expect([answer.status, golden(answer.text)]).toEqual([401, UNAUTHORIZED])
    expect(answer.headers['www-authenticate']).toBe('Bearer')
  }

  test('without a key, whatever else is wrong with the request', async () => {
    await refused(asJson())
    await refused(asJson(), '{')
    await refused(asJson(), '{"session_id":""}')
    await refused({ 'content-type': 'text/plain' })
    await refused({}, '')
  })

  test('with a wrong key, half a key or another scheme', async () => {
    const { key } = await service.business()
    await refused(asJson(`${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`))
    await refused(asJson(key.slice(0, -1)))
    await refused(asJson(`${key}x`))
    await refused(asJson('x'.repeat(5_000)))
    await refused(asJson(''))
    await refused({ ...asJson(), authorization: key })
    await refused({ ...asJson(), authorization: `Basic ${key}` })
    await refused({ ...asJson(), authorization: `Bearer ${key} ${key}` })
  })

  test("with an internal token, be it an administrator's", () => refused(asJson(ADMIN_TOKEN)))

  test('with an expired key', async () => {
    const { id } = await service.business()
    const { secretKey } = await service.client(BusinessService).issueKey({
      businessId: id,
      expiresAt: timestampFromMs(Date.now() + 3_000),
    })
    const body = { session_id: '1' }
    const look = () => service.post('getTransaction/', secretKey, body)
    expect((await look()).status).toBe(404)
    await until(look, (answer) => answer.status === 401, 10_000)
    await refused(asJson(secretKey))
  })

  test('with a revoked key, soon, while the other key goes on', async () => {
    const { id, key } = await service.business()
    const businesses = service.client(BusinessService)
    const { key: second, secretKey } = await businesses.issueKey({ businessId: id })
    const look = () => service.post('getTransaction/', secretKey, { session_id: '1' })
    expect((await look()).status).toBe(404)
    await businesses.revokeKey({ keyId: second!.id })
    await until(look, (answer) => answer.status === 401, 10_000)
    await refused(asJson(secretKey))
    expect((await service.post('getTransaction/', key, { session_id: '1' })).status).toBe(404)
  })

  test('never for the scheme in lower case', async () => {
    const { key } = await service.business()
    const headers = { ...asJson(), authorization: `bearer ${key}` }
    const answer = await send(service.httpUrl, { headers, body: '{"session_id":"1"}' })
    expect(answer.status).toBe(404)
  })
})

test("404 not_found: an unknown session and another business's are the same answer", async () => {
  const owner = await service.business()
  const stranger = await service.business()
  const created = await service.post('generateVirtualAccount/', owner.key, creation())
  const { sessionId } = await service.client(SandboxService).simulateTransfer({
    accountNumber: created.body.data.account[0].account_number,
    amountMinor: 100n,
  })
  const ask = (key: string, session: string) =>
    send(service.httpUrl, { headers: asJson(key), body: JSON.stringify({ session_id: session }) })
  expect((await ask(owner.key, sessionId)).status).toBe(200)
  const unknown = await ask(stranger.key, `${sessionId.slice(0, -1)}x`)
  const foreign = await ask(stranger.key, sessionId)
  for (const answer of [unknown, foreign]) {
    expect([answer.status, golden(answer.text)]).toEqual([404, NOT_FOUND])
  }
  const plain = ({ headers }: typeof unknown) => ({ ...headers, date: '', 'x-request-id': '' })
  expect(plain(foreign)).toEqual(plain(unknown))
})

describe('404 unknown_path', () => {
  test.each([
    ['POST', '/'],
    ['GET', '/v2/thirdparty/'],
    ['POST', '/v2/thirdparty/getTransactions'],
    ['POST', '/v2/thirdparty/getTransaction//'],
    ['POST', '/v2/thirdparty/GETTRANSACTION/'],
    ['POST', '/v1/thirdparty/getTransaction/'],
    ['POST', '/v2/thirdparty/getTransaction/x'],
    ['DELETE', '/inflow.thirdparty.v2.ThirdPartyService/Nothing'],
    ['POST', `/${'x'.repeat(5_000)}`],
  ])('%s %s', async (method, path) => {
    for (const body of ['', '{', '{}']) {
      const answer = await send(service.httpUrl, { method, path, headers: asJson(), body })
      expect([answer.status, golden(answer.text)]).toEqual([404, UNKNOWN_PATH])
      expect(answer.headers['x-request-id']).toMatch(/^req_/)
    }
  })
})

describe('405 method_not_allowed, with Allow: POST', () => {
  const methods = ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'SEARCH']
  test.each(methods)(
    '%s on every path, with a slash and without, whatever the body',
    async (method) => {
      const { key } = await service.business()
      for (const path of PATHS.flatMap((each) => [each, `${each}/`, `${each}/?a=b`])) {
        for (const body of ['', '{', '{}']) {
          const answer = await send(service.httpUrl, { method, path, headers: asJson(key), body })
          expect([answer.status, golden(answer.text)]).toEqual([405, METHOD])
          expect(answer.headers.allow).toBe('POST')
          expect(answer.headers['x-request-id']).toBe(JSON.parse(answer.text).request_id)
        }
      }
    },
  )

  test('HEAD, without a body', async () => {
    const answer = await send(service.httpUrl, { method: 'HEAD' })
    expect([answer.status, answer.text, answer.headers.allow]).toEqual([405, '', 'POST'])
  })
})

test('409 duplicate_reference: a used reference with other details', async () => {
  const { key } = await service.business()
  await service.post('generateVirtualAccount/', key, creation())
  for (const other of [
    { email: 'other@example.com' },
    { phone: '08012345679' },
    { firstName: 'Bola' },
    { lastName: 'Okafor' },
    { bank: 'PROVIDUS' },
    { idType: 'bvn', idNumber: '12345678901' },
  ]) {
    const body = JSON.stringify(creation(other))
    const answer = await send(service.httpUrl, { path: GENERATE, headers: asJson(key), body })
    expect([answer.status, golden(answer.text)]).toEqual([
      409,
      '{"status":false,"message":"The reference was used before with other details","code":"duplicate_reference","request_id":"*"}',
    ])
  }
})

describe('415 unsupported_media_type', () => {
  test.each([
    undefined,
    'text/plain',
    'application/jsonp',
    'application/x-www-form-urlencoded',
    ';;;',
  ])('a body of type %s is refused', async (type) => {
    const { key } = await service.business()
    const headers = {
      authorization: `Bearer ${key}`,
      ...(type !== undefined && { 'content-type': type }),
    }
    const answer = await send(service.httpUrl, { headers, body: '{"session_id":"1"}' })
    expect([answer.status, golden(answer.text)]).toEqual([415, MEDIA_TYPE])
  })

  test.each([
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/json;charset=UTF-8',
  ])('%s is accepted', async (type) => {
    const { key } = await service.business()
    const headers = { authorization: `Bearer ${key}`, 'content-type': type }
    const answer = await send(service.httpUrl, { headers, body: '{"session_id":"1"}' })
    expect(answer.status).toBe(404)
  })
})

describe('invalid HTTP gets the error envelope, with X-Request-Id', () => {
  const malformed = (message: string) =>
    `{"status":false,"message":"${message}","code":"malformed_request","request_id":"*"}`
  const host = 'Host: x\r\nConnection: close\r\n'
  test.each([
    ['a line that is no request', 'HELLO\r\n\r\n', 400, malformed('The request is not HTTP')],
    [
      'an unknown method',
      `FOO / HTTP/1.1\r\n${host}\r\n`,
      400,
      malformed('The request is not HTTP'),
    ],
    [
      'a chunk without a length',
      `POST ${GET_TRANSACTION} HTTP/1.1\r\n${host}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      400,
      malformed('The request is not HTTP'),
    ],
    [
      'no Host header',
      'GET / HTTP/1.1\r\nConnection: close\r\n\r\n',
      400,
      malformed('The Host header is missing'),
    ],
    [
      'a path that does not decode',
      `GET /%zz HTTP/1.1\r\n${host}\r\n`,
      400,
      malformed('The request could not be read'),
    ],
    [
      'an unknown expectation',
      `POST ${GET_TRANSACTION} HTTP/1.1\r\n${host}Expect: x\r\n\r\n`,
      401,
      UNAUTHORIZED,
    ],
    [
      'headers over 16 KiB',
      `GET / HTTP/1.1\r\n${host}X: ${'x'.repeat(20_000)}\r\n\r\n`,
      431,
      '{"status":false,"message":"The headers are larger than 16 KiB","code":"headers_too_large","request_id":"*"}',
    ],
  ])('%s', async (_what, text, status, expected) => {
    const answer = await exchange(service.httpUrl, text)
    const [head = '', body = ''] = answer.split('\r\n\r\n')
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(golden(body)).toBe(expected)
    const id = /^x-request-id: (req_[0-9a-z]+)$/im.exec(head)?.[1]
    expect(id).toBe(JSON.parse(body).request_id)
  })

  const paths = [GET_TRANSACTION, '/inflow.business.v1.BusinessService/GetBusiness', '/healthz']
  const hosts = [
    'Host: x\r\nHost: x\r\n',
    'Host: x\r\nConnection: close\r\nhOST: y\r\n',
    'Host: x\r\nHost:\r\n',
  ]
  const requests = [...paths, '/metrics', '/docs', '/console', '/nothing'].flatMap((path) =>
    hosts.flatMap((lines) => ['1.0', '1.1'].map((version) => [path, version, lines] as const)),
  )
  test.each(requests)('two Host headers: %s of HTTP/%s, %j', async (path, version, lines) => {
    const text = `GET ${path} HTTP/${version}\r\n${lines}Connection: close\r\n\r\n`
    const [head = '', body = ''] = (await exchange(service.httpUrl, text)).split('\r\n\r\n')
    expect(head).toMatch(/^HTTP\/1.1 400 /)
    expect(golden(body)).toBe(malformed('There is more than one Host header'))
  })
})
