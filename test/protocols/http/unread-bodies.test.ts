import { connect } from 'node:net'
import { Code, ConnectError } from '@connectrpc/connect'
import { errorFromJson } from '@connectrpc/connect/protocol-connect'
import { findTrailerError } from '@connectrpc/connect/protocol-grpc'
import { trailerParse } from '@connectrpc/connect/protocol-grpc-web'
import { expect, test } from 'vitest'
import { ErrorInfoSchema } from '../../../gen/google/rpc/error_details_pb.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'

const service = useService()

const SECRET = '22123456789'
const UNARY = 'inflow.account.v1.AccountService/CreateAccount'
const STREAM = 'inflow.event.v1.EventService/Subscribe'

/** A message in the framing of streams. */
function framed(bytes: Buffer | string): Buffer {
  const body = Buffer.from(bytes)
  const head = Buffer.alloc(5)
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}

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
  [UNARY, 'application/json', `{"idNumber": "${SECRET}`],
  [UNARY, 'application/proto', wrongBinary],
  [UNARY, 'application/grpc-web+proto', framed(wrongBinary)],
  [UNARY, 'application/grpc-web+json', framed(wrongJson)],
  [STREAM, 'application/connect+json', framed(`{"cursor": ${SECRET}}`)],
  [STREAM, 'application/connect+proto', framed(wrongBinary)],
  [STREAM, 'application/grpc-web+proto', framed(wrongBinary)],
]

test.each(CASES)(
  '%s as %s: what cannot be read has the details of every error',
  async (path, type, body) => {
    const answer = await post(path, type, body)
    const error = errorOf(type, answer.bytes)
    expect(Code[error.code]).toBe('InvalidArgument')
    expect(error.rawMessage).toMatch(/^The request cannot be read as a inflow\./)
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
  const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
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
