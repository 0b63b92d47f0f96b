import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startCannedService } from './canned-service.ts'
import { inflow } from './run-inflow.ts'

vi.setConfig({ testTimeout: 30_000 })

const CLOSED = { INFLOW_GRPC_URL: 'http://127.0.0.1:1', INFLOW_TOKEN: 't' }

test('1: a refusal names its reason, and each field at fault on its own line', async () => {
  const { url, token } = await startCannedService()
  const env = { INFLOW_GRPC_URL: url, INFLOW_TOKEN: token }
  const missing = await inflow(['transaction', 'get', 'NONE', '--business', 'b'], { env })
  expect(missing).toEqual({
    code: 1,
    stdout: '',
    stderr: 'error: There is no such transaction (not_found)\n',
  })
  const account = ['account', 'create', '--business', 'b', '--reference', 'r', '--bank', '9PSB']
  const customer = ['--first-name', 'A', '--last-name', 'O', '--email', 'x', '--phone', '1']
  expect(await inflow([...account, ...customer], { env })).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'error: Invalid request: email, phone (validation_failed)\n' +
      '  email: must be valid\n' +
      '  phone: must be Nigerian\n',
  })
})

test('1: a wrong token, and a service that is away behind its door', async () => {
  const service = await startCannedService()
  const env = { INFLOW_GRPC_URL: service.url, INFLOW_TOKEN: service.token }
  const wrong = await inflow(['business', 'list', '--token', 'wrong'], { env })
  expect(wrong).toMatchObject({ code: 1, stderr: 'error: No such token (unauthorized)\n' })
  service.refuseNext('bank_unavailable')
  const away = await inflow(['business', 'list'], { env })
  expect(away).toMatchObject({ code: 1, stderr: 'error: Not now (bank_unavailable)\n' })
})

test('1: a refusal without our details tells its gRPC code', async () => {
  const { url, token } = await startCannedService()
  const env = { INFLOW_GRPC_URL: url, INFLOW_TOKEN: token }
  const bare = await inflow(['key', 'revoke', 'bare'], { env })
  expect(bare).toMatchObject({ code: 1, stderr: 'error: Bare (permission_denied)\n' })
})

test.each([
  [
    'an amount with three decimals',
    ['transfer', 'simulate', '--account', '1', '--amount', '1.234'],
    '--amount',
  ],
  [
    'an amount in exponents',
    ['transfer', 'simulate', '--account', '1', '--amount', '1e3'],
    '--amount',
  ],
  ['an amount below zero', ['transfer', 'simulate', '--account', '1', '--amount=-5'], '--amount'],
  ['nothing', ['transfer', 'simulate', '--account', '1', '--amount', '0'], '--amount'],
  [
    'too large an amount',
    ['transfer', 'simulate', '--account', '1', '--amount', '10000000000000.01'],
    '--amount',
  ],
  ['a missing option', ['transfer', 'simulate', '--amount', '1'], '--account'],
  ['a missing operand', ['transaction', 'get'], 'session-id'],
  ['one operand too many', ['transaction', 'get', 'a', 'b'], 'too many arguments'],
  ['an unknown bank', ['account', 'create', '--bank', 'GTB'], '9PSB, SAFEHAVEN, PROVIDUS, PALMPAY'],
  ['an unknown status', ['account', 'list', '--status', 'UNSPECIFIED'], '--status'],
  ['a page too large', ['business', 'list', '--limit', '201'], '--limit'],
  ['a time that is none', ['transaction', 'list', '--from', 'yesterday'], '--from'],
  ['two starts', ['events', 'tail', '--cursor', 'c', '--from-beginning'], '--from-beginning'],
  ['an unknown noun', ['nonsense'], 'nonsense'],
  ['an unknown verb', ['business', 'destroy'], 'destroy'],
  ['an unknown option', ['business', 'list', '--colour'], '--colour'],
  ['a noun without its verb', ['business'], 'Usage: inflow business'],
  ['no noun', [], 'Usage: inflow'],
  ['no business', ['key', 'list'], '--business'],
  ['a URL that is none', ['business', 'list', '--url', 'localhost:50051'], '--url'],
] as const)('2: %s is wrong usage that names what is wrong', async (_name, args, named) => {
  const { code, stdout, stderr } = await inflow(args, { env: CLOSED })
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain(named)
})

test('3: nobody listens, nobody is there, or it is another kind of server', async () => {
  const http = createServer((_request, response) => response.end('hello'))
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  onTestFinished(() => void http.close())
  const urls = [
    CLOSED.INFLOW_GRPC_URL,
    'http://inflow.invalid:50051',
    `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
  ]
  for (const url of urls) {
    for (const verb of [
      ['business', 'list'],
      ['events', 'tail'],
    ]) {
      const { code, stdout, stderr } = await inflow([...verb, '--url', url], { env: CLOSED })
      expect({ url, verb, code, stdout }).toEqual({ url, verb, code: 3, stdout: '' })
      expect(stderr).toMatch(
        /^error: cannot reach the service at http:.*\n {2}start it with `npm start`/m,
      )
    }
  }
})
