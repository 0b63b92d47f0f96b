import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findService } from '../../src/cli/find-service.ts'
import { readTlsOptions } from '../../src/cli/tls.ts'
import { temporaryFolder } from '../support/folder.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { inflow } from './run-inflow.ts'

const service = useSharedService()

const LOCAL = 'http://127.0.0.1:50051'

function dataDir(credentials: unknown): string {
  const folder = join(temporaryFolder(), 'data')
  mkdirSync(folder)
  const text = typeof credentials === 'string' ? credentials : JSON.stringify(credentials)
  writeFileSync(join(folder, 'credentials.json'), text)
  return folder
}

const credentials = (grpcUrl: string, token = 'admin') => ({
  business_id: 'biz_demo',
  secret_key: 'sk_live_1',
  admin_token: token,
  http_url: 'http://127.0.0.1:8080',
  grpc_url: grpcUrl,
})

test('the command finds a local service, and its demo business, in .inflow', async () => {
  const { id } = await service.business()
  const folder = temporaryFolder()
  mkdirSync(join(folder, '.inflow'))
  const text = JSON.stringify({ ...credentials(service.grpcUrl, ADMIN_TOKEN), business_id: id })
  writeFileSync(join(folder, '.inflow/credentials.json'), text)
  const { stdout } = await inflow(['key', 'list', '--json'], { cwd: folder })
  expect(JSON.parse(stdout).keys).toMatchObject([{ businessId: id }])
})

test('without a service, one line says what to do', () => {
  expect(() => findService({}, { DATA_DIR: '/no' })).toThrow(
    'no service found: start one here with `npm start` (it writes /no/credentials.json), `inflow login` to one, or set INFLOW_GRPC_URL and INFLOW_TOKEN',
  )
})

test('options override the environment, which overrides the file', () => {
  const env = { DATA_DIR: dataDir(credentials(LOCAL)) }
  expect(findService({}, env)).toEqual({
    url: LOCAL,
    token: 'admin',
    httpUrl: 'http://127.0.0.1:8080',
    opsUrl: 'http://127.0.0.1:8080',
    businessId: 'biz_demo',
  })
  expect(findService({ token: 'mine' }, env)).toMatchObject({ url: LOCAL, token: 'mine' })
  const both = { ...env, INFLOW_GRPC_URL: 'http://a:1', INFLOW_TOKEN: 'theirs' }
  expect(findService({}, both)).toEqual({
    url: 'http://a:1',
    token: 'theirs',
    businessId: undefined,
  })
  expect(findService({ serviceUrl: 'https://b', token: 'mine' }, both)).toEqual({
    url: 'https://b',
    token: 'mine',
    businessId: undefined,
  })
})

test('a token comes from a file that an option or the environment names', () => {
  const folder = temporaryFolder()
  const path = (name: string) => join(folder, name)
  writeFileSync(path('token'), `${ADMIN_TOKEN}\n`)
  writeFileSync(path('empty'), '\n')
  writeFileSync(path('two'), 'one\ntwo\n')
  writeFileSync(path('large'), 'x'.repeat(10_000))
  const env = { INFLOW_GRPC_URL: LOCAL }
  const byFile = { ...env, INFLOW_TOKEN_FILE: path('token') }
  const option = { tokenFile: path('token') }
  expect(findService({}, byFile)).toMatchObject({ token: ADMIN_TOKEN })
  expect(findService(option, { ...env, INFLOW_TOKEN: 'theirs' }).token).toBe(ADMIN_TOKEN)
  expect(() => findService({ tokenFile: path('none') }, env)).toThrow(
    `--token-file names a file that cannot be read (ENOENT): ${path('none')}`,
  )
  for (const name of ['empty', 'two', 'large']) {
    expect(() => findService({}, { ...env, INFLOW_TOKEN_FILE: path(name) })).toThrow(
      `INFLOW_TOKEN_FILE names a file that has not one valid line: ${path(name)}`,
    )
  }
  expect(() => findService({ ...option, token: 'mine' }, env)).toThrow('remove one')
  expect(() => findService({}, { ...byFile, INFLOW_TOKEN: 'x' })).toThrow(
    'INFLOW_TOKEN and INFLOW_TOKEN_FILE are both set',
  )
})

test('a token that cannot be one is refused, and a secret in place of a path is not repeated', () => {
  for (const token of ['tok_1…', 'tok 1', 'tok_1\n2']) {
    expect(() => findService({ serviceUrl: LOCAL, token }, {})).toThrow('copy it again')
  }
  for (const secret of ['sk_live_1_secret', '-----BEGIN PRIVATE KEY-----\nsecret']) {
    const read = () => readTlsOptions({ INFLOW_KEY: secret })
    expect(read).toThrow(/^INFLOW_KEY names a file .*: its value is a secret, not a path$/)
  }
})

test('the token of the file is sent only to the service of the file', () => {
  const env = { DATA_DIR: dataDir(credentials(LOCAL)) }
  expect(findService({ serviceUrl: `${LOCAL}/` }, env)).toMatchObject({ token: 'admin' })
  expect(() => findService({ serviceUrl: 'http://elsewhere:50051' }, env)).toThrow(
    'no token for http://elsewhere:50051: set INFLOW_TOKEN or INFLOW_TOKEN_FILE, or pass --token-file',
  )
})

test('an invalid file is named, and matters only if it is needed', () => {
  for (const broken of ['{', 'null', { grpc_url: LOCAL }, credentials('nonsense')]) {
    const env = { DATA_DIR: dataDir(broken) }
    expect(() => findService({}, env)).toThrow(/credentials\.json/)
    const given = { serviceUrl: LOCAL, token: 't' }
    expect(findService(given, env)).toEqual({ url: LOCAL, token: 't', businessId: undefined })
  }
})
