import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { Code, ConnectError } from '@connectrpc/connect'
import { errorFromJson } from '@connectrpc/connect/protocol-connect'
import { findTrailerError } from '@connectrpc/connect/protocol-grpc'
import { trailerParse } from '@connectrpc/connect/protocol-grpc-web'
import { describe, expect, test } from 'vitest'
import { ErrorInfoSchema } from '../../../gen/google/rpc/error_details_pb.ts'
import { ADMIN_TOKEN, useSharedService } from '../../support/service.ts'
import { framed } from '../grpc/http2-frames.ts'
import { asOperator, GET_BUSINESS, send } from '../rest/rest.ts'

const service = useSharedService()

type Wire = Parameters<typeof send>[1]

const SECRET = '22123456789'
const UNARY = 'inflow.account.v1.AccountService/CreateAccount'
const STREAM = 'inflow.event.v1.EventService/Subscribe'

async function post(path: string, type: string, body: Buffer | string, token = ADMIN_TOKEN) {
  const response = await fetch(`${service.httpUrl}/${path}`, {
    method: 'POST',
    headers: { 'content-type': type, authorization: `Bearer ${token}` },
    body,
  })
  const bytes = Buffer.from(await response.arrayBuffer())
  return { status: response.status, requestId: response.headers.get('x-request-id'), bytes }
}

/** The error of an answer, whichever of the protocols it is in. */
function errorOf(type: string, bytes: Buffer): ConnectError {
  const fallback = new ConnectError('no error', Code.Unknown)
  if (type.includes('grpc-web')) {
    return findTrailerError(trailerParse(bytes.subarray(5))) ?? fallback
  }
  const text = type.includes('connect') ? bytes.subarray(5) : bytes
  const json = JSON.parse(text.toString())
  return errorFromJson(json.error ?? json, undefined, fallback)
}

const wrongJson = `{"phone": {"x": ${SECRET}}, "idNumber": ${SECRET}}`
const wrongBinary = Buffer.concat([
  Buffer.from('ffffffffffffffffffff01', 'hex'),
  Buffer.from(SECRET),
])

const CASES: [string, string, Buffer | string][] = [
  [UNARY, 'application/json', wrongJson],
  [UNARY, 'application/proto', wrongBinary],
  [UNARY, 'application/grpc-web+proto', framed(wrongBinary)],
  [STREAM, 'application/connect+json', framed(Buffer.from(`{"cursor": ${SECRET}}`))],
  [STREAM, 'application/connect+proto', framed(wrongBinary)],
  [STREAM, 'application/grpc-web+proto', framed(wrongBinary)],
]

test.each(CASES)(
  '%s as %s: what cannot be read has the details of every error',
  async (path, type, body) => {
    const answer = await post(path, type, body)
    const error = errorOf(type, answer.bytes)
    expect(Code[error.code]).toBe('InvalidArgument')
    expect(error.rawMessage).toMatch(/^The request cannot be read as an inflow\./)
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([
      {
        reason: 'malformed_request',
        domain: 'inflow',
        metadata: { request_id: answer.requestId },
      },
    ])
    expect(answer.bytes.toString('latin1')).not.toContain(SECRET)
  },
)

test.each(CASES)(
  '%s as %s: an unauthenticated caller gets 401, whatever the body',
  async (path, type, body) => {
    const answer = await post(path, type, body, 'somebody-elses-token')
    const error = errorOf(type, answer.bytes)
    expect(Code[error.code]).toBe('Unauthenticated')
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: 'unauthorized' }])
  },
)

test('a message that is too large is refused and counted', async () => {
  const answer = await post(UNARY, 'application/json', 'x'.repeat(4 * 1024 * 1024 + 1))
  const error = errorOf('application/json', answer.bytes)
  expect(Code[error.code]).toBe('ResourceExhausted')
  expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: 'payload_too_large' }])
  const metrics = await service.service.metrics.metrics()
  expect(metrics).toMatch(
    /inflow_rpc_requests_total\{[^}]*CreateAccount[^}]*payload_too_large"\} 1/,
  )
})

test('an unauthenticated caller gets its response before the body arrives', async () => {
  const socket = connect(Number(new URL(service.httpUrl).port), '127.0.0.1')
  const answer = new Promise<string>((resolve) => socket.once('data', (text) => resolve(`${text}`)))
  socket.write(
    `POST /${UNARY} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n`,
  )
  expect(await answer).toMatch(/^HTTP\/1.1 401 /)
  socket.destroy()
})

describe('a business key has the limits of REST', () => {
  const LIST_EVENTS = '/inflow.thirdparty.v2.ThirdPartyService/ListEvents'
  const of = (bytes: number) => `{${' '.repeat(bytes - 2)}}`
  const call = async (
    contentType: string,
    body: Wire['body'],
    more: Record<string, string> = {},
  ) => {
    const { key } = await service.business()
    const authorization = `Bearer ${key}`
    const all = asOperator(contentType, { authorization, ...more })
    return send(service.httpUrl, { path: LIST_EVENTS, headers: all, ...(body && { body }) })
  }
  const tooLarge = (limit: string) => ({
    code: 'resource_exhausted',
    message: `The body is larger than ${limit}`,
    details: [{ debug: { reason: 'payload_too_large' } }],
  })

  test('64 KiB are read, and one byte more is 413 in our words', async () => {
    expect(await call('application/json', of(65_536))).toMatchObject({ status: 200 })
    const chunks = of(65_537).match(/.{1,10000}/gs)!
    for (const body of [of(65_537), chunks]) {
      const answer = await call('application/json', body)
      expect(answer.status).toBe(413)
      expect(JSON.parse(answer.text)).toMatchObject(tooLarge('64 KiB'))
    }
    const binary = await call('application/proto', Buffer.alloc(65_537))
    expect([binary.status, JSON.parse(binary.text)]).toMatchObject([413, tooLarge('64 KiB')])
    const web = await call('application/grpc-web+proto', framed(Buffer.alloc(65_537)))
    expect(web.text).toMatch(/grpc-status: 8\r\n/)
    expect(web.text).toMatch(/grpc-message: The%20body%20is%20larger%20than%2064%20KiB\r\n/)
  })

  test('the bound holds once a body is decompressed', async () => {
    const gzip = { 'content-encoding': 'gzip' }
    const answer = await call('application/json', gzipSync(of(65_537)), gzip)
    expect([answer.status, JSON.parse(answer.text)]).toMatchObject([413, tooLarge('64 KiB')])
  })

  test('tokens keep the room that a batch of payments needs', async () => {
    const read = (body: string) =>
      send(service.httpUrl, { path: GET_BUSINESS, headers: asOperator('application/json'), body })
    expect(await read(of(4 * 1024 * 1024))).toMatchObject({ status: 400 })
    const answer = await read(of(4 * 1024 * 1024 + 1))
    expect([answer.status, JSON.parse(answer.text)]).toMatchObject([413, tooLarge('4 MiB')])
  })
})

describe('a body with a Content-Encoding that it does not have is refused', () => {
  test.each([
    ['application/json', 'gzip', 400, 'malformed_request'],
    ['application/proto', 'gzip', 400, 'malformed_request'],
    ['application/grpc-web+json', 'gzip', 415, 'unsupported_media_type'],
  ])('%s with %s', async (contentType, encoding, status, reason) => {
    const answer = await send(service.httpUrl, {
      path: GET_BUSINESS,
      headers: asOperator(contentType, { 'content-encoding': encoding }),
      body: contentType.includes('+') ? framed(Buffer.from('{}')) : '{"businessId":"biz_x"}',
    })
    expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(reason)])
  })
})

describe('a JSON key that is given twice is refused and named', () => {
  const twice = '{"businessId":"biz_a","business\\u0049d":"biz_b"}'
  const stream = '{"businessIds":[],"businessIds":[]}'
  test.each([
    ['application/json', GET_BUSINESS, twice],
    ['application/grpc-web+json', GET_BUSINESS, framed(Buffer.from(twice))],
    [
      'application/connect+json',
      '/inflow.event.v1.EventService/Subscribe',
      framed(Buffer.from(stream)),
    ],
  ])('%s', async (contentType, path, body) => {
    const answer = await send(service.httpUrl, { path, headers: asOperator(contentType), body })
    expect(decodeURIComponent(answer.text)).toMatch(/The key \\?"businessIds?\\?" is given twice/)
    if (contentType === 'application/json') {
      expect(answer.status).toBe(400)
      expect(JSON.parse(answer.text)).toMatchObject({
        code: 'invalid_argument',
        details: [
          { debug: { reason: 'malformed_json' } },
          { debug: { fieldViolations: [{ field: 'businessId', description: 'is given twice' }] } },
        ],
      })
    }
  })

  test('compressed, in a query, and inside of a list as well', async () => {
    const gzipped = await send(service.httpUrl, {
      path: GET_BUSINESS,
      headers: asOperator('application/json', { 'content-encoding': 'gzip' }),
      body: gzipSync(twice),
    })
    expect(gzipped).toMatchObject({ status: 400, text: expect.stringContaining('is given twice') })
    const query = await send(service.httpUrl, {
      method: 'GET',
      path: `${GET_BUSINESS}?encoding=json&message=${encodeURIComponent(twice)}`,
      headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    expect(query).toMatchObject({ status: 400, text: expect.stringContaining('is given twice') })
    const batch = await send(service.httpUrl, {
      path: '/inflow.transaction.v1.TransactionService/RecordPayments',
      headers: asOperator('application/json'),
      body: '{"payments":[{},{"amountMinor":"1","amountMinor":"2"}]}',
    })
    expect(batch).toMatchObject({ status: 400 })
    expect(batch.text).toContain('payments[1].amountMinor')
  })
})
