import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../support/embedded-service.ts'
import { startInstance } from '../support/instance.ts'
import { listen } from '../support/listen.ts'
import { startProxy } from '../support/proxy.ts'
import { useSharedService } from '../support/service.ts'
import { callerEnv, inflow, runHere } from './run-inflow.ts'

const CLOSED = { INFLOW_GRPC_URL: 'http://127.0.0.1:1', INFLOW_TOKEN: 't' }

const service = useSharedService()
const open = () => callerEnv(service)

/** A call, and a stream of another client. */
const [LIST, TAIL] = [
  ['business', 'list'],
  ['events', 'tail'],
] as const

const INVALID = [
  'account',
  'create',
  '--reference',
  'r',
  '--bank',
  '9PSB',
  '--first-name',
  'A',
  '--last-name',
  'O',
  '--email',
  'x',
  '--phone',
  '1',
]

test('1: a refusal names its reason, and each invalid field on its own line', async () => {
  const { id } = await service.business()
  const missing = await inflow(['transaction', 'get', 'NONE', '--business', id], { env: open() })
  expect(missing).toMatchObject({ code: 1, stdout: '' })
  expect(missing.stderr).toMatch(/^error: [^\n]+ \(not_found\)\n$/)
  const invalid = await runHere([...INVALID, '--business', id], open())
  expect(invalid).toMatchObject({ code: 1, stdout: '' })
  expect(invalid.stderr).toMatch(
    /^error: Invalid request: email, phone \(validation_failed\)\n {2}email: must [^\n]+\n {2}phone: must [^\n]+\n$/,
  )
})

test('with --json, an error is one line of JSON with its reason', async () => {
  const errorOf = async (args: readonly string[], env: Record<string, string> = open()) => {
    const { code, stdout, stderr } = await runHere([...args, '--json'], env)
    const { error } = JSON.parse(stderr)
    expect([code, stdout, stderr.trimEnd().includes('\n')]).toEqual([error.exit_code, '', false])
    return error
  }
  const { id } = await service.business()
  expect(await errorOf([...INVALID, '--business', id])).toEqual({
    reason: 'validation_failed',
    message: 'Invalid request: email, phone (validation_failed)',
    details: [expect.stringMatching(/^email: must /), expect.stringMatching(/^phone: must /)],
    exit_code: 1,
  })
  expect(await errorOf(['account', 'list', '--nonsense'])).toMatchObject({
    reason: 'usage',
    message: "unknown option '--nonsense'",
    exit_code: 2,
  })
  expect(await errorOf(LIST, CLOSED)).toMatchObject({
    reason: 'unreachable',
    exit_code: 3,
  })
  expect((await runHere(['account', 'list', '--json', '--help'], open())).code).toBe(0)
})

test('1: a list of a business that does not exist, which would be empty', async () => {
  const { id } = await service.business()
  expect(await runHere(['account', 'list', '--business', id], open())).toMatchObject({
    code: 0,
    stderr: 'None found.\n',
  })
  const unknown = await runHere(['account', 'list', '--business', 'biz_unknown'], open())
  expect(unknown).toMatchObject({ code: 1, stdout: '' })
  expect(unknown.stderr).toMatch(/^error: [^\n]+ \(not_found\)\n$/)
})

test('2: a file of settings that does not exist', async () => {
  const launcher = join(ROOT, 'node_modules/.bin/inflow')
  const run = promisify(execFile)(launcher, ['config', 'check', '--env-file', 'none'])
  await expect(run).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error: --env-file cannot be read: ENOENT/),
  })
})

test('1: a wrong token', async () => {
  for (const verb of [LIST, TAIL]) {
    const wrong = await runHere([...verb, '--token', 'wrong'], open())
    expect(wrong).toMatchObject({ code: 1, stdout: '' })
    expect(wrong.stderr).toMatch(/^error: [^\n]+ \(unauthorized\)\n$/)
  }
})

test('1: a service whose database is unavailable', async () => {
  const wire = await startProxy(service.url)
  const instance = await startInstance(wire.through)
  onTestFinished(instance.close)
  await wire.block()
  const refused = await runHere([...LIST, '--url', instance.grpcUrl], open())
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toMatch(/^error: [^\n]+ \(unavailable\)\n {2}retry in 1 s\n$/)
})

test('1: a refusal without details names its gRPC code', async () => {
  // Another gRPC server.
  const server = new Server()
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    )
  })
  onTestFinished(() => server.forceShutdown())
  for (const verb of [LIST, TAIL]) {
    const bare = await runHere([...verb, '--url', `http://127.0.0.1:${port}`], open())
    expect(bare).toMatchObject({ code: 1, stdout: '' })
    expect(bare.stderr).toMatch(/^error: [^\n]+ \(unimplemented\)\n$/)
  }
})

const SIMULATE = ['transfer', 'simulate', '--account', '1', '--amount']

test.each([
  ['an amount with three decimals', [...SIMULATE, '1.234'], '--amount'],
  ['nothing', [...SIMULATE, '0'], '--amount'],
  ['too large an amount', [...SIMULATE, '10000000000000.01'], '--amount'],
  ['a missing option', ['transfer', 'simulate', '--amount', '1'], '--account'],
  ['a missing operand', ['transaction', 'get'], 'session-id'],
  ['one operand too many', ['transaction', 'get', 'a', 'b'], 'too many arguments'],
  ['an unknown bank', ['account', 'create', '--bank', 'GTB'], '9PSB, SAFEHAVEN, PROVIDUS, PALMPAY'],
  ['an unknown scope', ['token', 'issue', '--name', 'x', '--scope', 'root'], 'events:subscribe'],
  ['no rate limit', ['business', 'update', 'x', '--rate-limit', 'fast'], 'Must be like 500/1000'],
  ['an invalid time', ['transaction', 'list', '--from', 'yesterday'], '--from'],
  ['two starts', ['events', 'tail', '--cursor', 'c', '--from-beginning'], '--from-beginning'],
  ['an unknown noun', ['nonsense'], 'nonsense'],
  ['an unknown verb', ['business', 'destroy'], 'destroy'],
  ['a noun without a verb', ['business'], 'Usage: inflow business'],
  ['a nested noun without a verb', ['events', 'epoch'], 'Usage: inflow events epoch'],
  ['no noun', [], 'Usage: inflow'],
  ['no business', ['key', 'list'], '--business'],
  ['an invalid URL', ['business', 'list', '--url', 'localhost:50051'], '--url'],
] as const)('2: %s is invalid usage; the error names it', async (_name, args, named) => {
  const { code, stdout, stderr } = await runHere(args, CLOSED)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain(named)
})

test('3: nothing listens, the host is unknown, or it is another kind of server', async () => {
  const http = createServer((_request, response) => response.end('hello'))
  onTestFinished(() => void http.close())
  const urls = [
    'http://127.0.0.1:1',
    'http://inflow.invalid:50051',
    `http://127.0.0.1:${await listen(http)}`,
  ]
  for (const url of urls) {
    for (const verb of [LIST, TAIL]) {
      const { code, stdout, stderr } = await runHere([...verb, '--url', url], CLOSED)
      expect({ url, verb, code, stdout }).toEqual({ url, verb, code: 3, stdout: '' })
      expect(stderr).toMatch(
        /^error: cannot reach the service at http:.*\n {2}start it with `npm start`/m,
      )
    }
  }
})
