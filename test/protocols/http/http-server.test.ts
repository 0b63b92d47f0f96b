import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { create } from '@bufbuild/protobuf'
import pino from 'pino'
import { Registry } from 'prom-client'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import {
  ListEventsResponseSchema,
  ThirdPartyService,
} from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { createRequestIds } from '../../../src/core/ids.ts'
import { openHttpServer } from '../../../src/server/http/http-server.ts'
import { handleMalformed } from '../../../src/server/http/responses.ts'
import { createInvokers } from '../../../src/server/invokers.ts'
import { useSharedService } from '../../support/service.ts'
import { asJson, exchange, GET_TRANSACTION, golden, send } from '../rest/rest.ts'

const service = useSharedService()

let server: Server | undefined

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
})

test('a request that does not arrive in time gets the error envelope', async () => {
  // The service waits half a minute; this server is as it is, but for the time.
  const limits = { requestTimeout: 100, headersTimeout: 100, connectionsCheckingInterval: 20 }
  server = createServer(limits, () => undefined)
  const malformed = handleMalformed(() => `req_${'0'.repeat(24)}`, [])
  server.on('request', malformed.onRequest).on('clientError', malformed.onClientError)
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const answer = await exchange(url, `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\nContent-L`)
  expect(answer).toMatch(/^HTTP\/1.1 408 Request Timeout\r\n/)
  expect(answer.toLowerCase()).toContain(`\r\nx-request-id: req_${'0'.repeat(24)}\r\n`)
  expect(golden(answer.split('\r\n\r\n')[1] ?? '')).toBe(
    '{"status":false,"message":"The request did not arrive in time","code":"request_timeout","request_id":"*"}',
  )
})

test('a caller that disconnects in the middle of a body affects no other caller', async () => {
  const { key } = await service.business()
  const head = `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer ${key}\r\n`
  await Promise.all(
    Array.from(
      { length: 50 },
      (_, index) =>
        new Promise<void>((resolve) => {
          const socket = connect(Number(new URL(service.httpUrl).port), '127.0.0.1')
          const start = `${head}Content-Length: 100\r\n\r\n${'x'.repeat(index)}`
          socket.write(start, () => socket.destroy())
          socket.on('close', () => resolve())
        }),
    ),
  )
  const answer = await send(service.httpUrl, { headers: asJson(key), body: '{"session_id":"1"}' })
  expect(answer.status).toBe(404)
})

test('pipelined requests are answered in order', async () => {
  const { key } = await service.business()
  const bodies = ['{', '{"session_id":"1"}', '{"session_id":""}']
  const requests = bodies.map((body, index) => {
    const last = index === bodies.length - 1 ? 'Connection: close\r\n' : ''
    return `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer ${key}\r\nContent-Length: ${body.length}\r\n${last}\r\n${body}`
  })
  const answer = await exchange(service.httpUrl, requests.join(''))
  expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 404', 'HTTP/1.1 422'])
})

/** Sends a request, and what is no HTTP as soon as its answer begins. @returns all that comes */
async function sendGarbageAfterAnswer(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('data', (bytes) => {
    if (answer === '') socket.write('no HTTP\r\n\r\n')
    answer += bytes
  })
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
  await new Promise((resolve) => socket.on('close', resolve))
  return answer
}

test('invalid HTTP after a response has begun closes the connection silently', async () => {
  server = createServer((_request, response) => response.write('begun'))
  const malformed = handleMalformed(() => `req_${'0'.repeat(24)}`, [])
  server.prependListener('request', malformed.onRequest)
  server.on('clientError', malformed.onClientError)
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  const answer = await sendGarbageAfterAnswer((server.address() as AddressInfo).port)
  expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200'])
  expect(answer).toContain('begun')
})

test('invalid HTTP after a complete response gets an error', async () => {
  const answer = await sendGarbageAfterAnswer(Number(new URL(service.httpUrl).port))
  expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400'])
})

test('an error outside of a call is logged with the request id that its caller got', async () => {
  const logged: Record<string, unknown>[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => logged.push(JSON.parse(line)) })
  const boom = async () => {
    throw new Error('a defect')
  }
  // An answer whose list is none cannot be written.
  const unwritable = Object.assign(create(ListEventsResponseSchema), { data: { events: 1 } })
  const methods = { getTransaction: boom, listEvents: async () => unwritable }
  const server = await openHttpServer({
    invokers: createInvokers([{ service: ThirdPartyService, methods }], {
      beforeDecoding: [],
      afterDecoding: [],
    }),
    notifications: { bankOf: () => 'BANK', allows: () => true, receive: boom },
    host: '127.0.0.1',
    port: 0,
    trustedProxies: [],
    requestIds: createRequestIds(),
    operations: { metrics: new Registry(), ready: async () => [], notes: () => [] },
    log,
    limits: { connectionsMax: 10, connectionsPerAddressMax: 10 },
    corsOrigins: [],
    console: undefined,
  })
  onTestFinished(() => server.close(0).then(() => undefined))
  for (const [path, url] of [
    ['/v2/thirdparty/getTransaction/', '/v2/thirdparty/getTransaction'],
    ['/v2/thirdparty/listEvents/', '/v2/thirdparty/listEvents'],
    ['/banks/any/notifications', '/banks/:bank/notifications'],
  ]) {
    const { status, text } = await send(`http://127.0.0.1:${server.port}`, {
      path: path!,
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    expect([path, status]).toEqual([path, 500])
    const { code, request_id: id } = JSON.parse(text)
    expect(code).toBe('internal')
    expect(logged).toContainEqual(
      expect.objectContaining({ level: 50, request_id: id, path: url, reason: 'internal' }),
    )
  }
  // What is the caller's fault is no line of its own.
  await send(`http://127.0.0.1:${server.port}`, {
    path: '/v2/thirdparty/listEvents/',
    body: 'x'.repeat(70_000),
  })
  expect(logged).toHaveLength(3)
})
