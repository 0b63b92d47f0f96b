import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { handleMalformed } from '../../../src/server/http/responses.ts'
import { listen } from '../../support/listen.ts'
import { useSharedService } from '../../support/service.ts'
import { exchange, GET_TRANSACTION, golden } from '../rest/rest.ts'

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
  const url = `http://127.0.0.1:${await listen(server)}`
  const answer = await exchange(url, `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\nContent-L`)
  expect(answer).toMatch(/^HTTP\/1.1 408 Request Timeout\r\n/)
  expect(answer.toLowerCase()).toContain(`\r\nx-request-id: req_${'0'.repeat(24)}\r\n`)
  expect(golden(answer.split('\r\n\r\n')[1] ?? '')).toBe(
    '{"status":false,"message":"The request did not arrive in time","code":"request_timeout","request_id":"*"}',
  )
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
  const answer = await sendGarbageAfterAnswer(await listen(server))
  expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200'])
  expect(answer).toContain('begun')
})

test('invalid HTTP after a complete response gets an error', async () => {
  const answer = await sendGarbageAfterAnswer(Number(new URL(service.httpUrl).port))
  expect(answer.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 400'])
})
