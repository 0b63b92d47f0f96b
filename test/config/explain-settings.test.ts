import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readEnvFile } from '../../src/config/env-file.ts'
import { explainSettings, maskSecret } from '../../src/config/explain-settings.ts'
import { runHere } from '../cli/run-inflow.ts'
import { temporaryFolder } from '../support/folder.ts'

const KEY = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 5)).toString('base64')

function fileOf(text: string, mode = 0o600) {
  const path = join(temporaryFolder(), 'inflow.env')
  writeFileSync(path, text, { mode })
  return readEnvFile(path)
}

function explained(env: NodeJS.ProcessEnv, text?: string) {
  const found = explainSettings(env, text === undefined ? undefined : fileOf(text))
  const of = (name: string) => {
    const { value, source } = found.settings.find((setting) => setting.name === name) ?? {}
    return value === undefined ? undefined : [value, source]
  }
  return { ...found, of }
}

test('states the value, the source and the default of a setting', () => {
  const secretFile = join(temporaryFolder(), 'key')
  writeFileSync(secretFile, `${KEY}\n`)
  const { of, faults, settings } = explained(
    { HTTP_PORT: '9000', GRPC_PORT: '', MASTER_KEY_FILE: secretFile },
    `HTTP_PORT=1\nLOG_LEVEL=warn\nDATABASE_URL='postgres://inflow:hidden@db:5432/inflow'\n`,
  )
  expect(faults).toEqual([])
  expect(of('HTTP_PORT')).toEqual(['9000', 'environment'])
  expect(of('GRPC_PORT')).toEqual(['50051', 'default'])
  expect(of('LOG_LEVEL')).toEqual(['warn', 'env-file'])
  expect(of('DATABASE_URL')).toEqual(['postgres://inflow:********@db:5432/inflow', 'env-file'])
  expect(of('MASTER_KEY')).toEqual(['********', 'secret file'])
  expect(of('ADMIN_TOKEN')).toEqual(['', 'default'])
  expect(of('RATE_LIMIT_KEY')).toEqual(['1000/2000', 'default'])
  expect(of('CONNECTIONS_PER_ADDRESS_MAX')).toEqual(['1000', 'default'])
  expect(JSON.stringify(settings)).not.toMatch(/hidden|AAUKDx/)
})

test('in embedded mode, keys are generated and limits are off', () => {
  const { of } = explained({})
  expect(of('MASTER_KEY')).toEqual(['********', 'generated'])
  expect(of('ADMIN_TOKEN')).toEqual(['********', 'generated'])
  expect(of('RATE_LIMIT_KEY')).toEqual(['off', 'default'])
  expect(of('CONSOLE')).toEqual(['on', 'default'])
})

test('shows the settings of a live bank, and of others only what is set', () => {
  const { of } = explained({ BANKS: 'PALMPAY=live', BANK_PROVIDUS_CLIENT_SECRET: 'hidden' })
  expect(of('BANK_PALMPAY_TIMEOUT_MS')).toEqual(['8000', 'default'])
  expect(of('BANK_PROVIDUS_CLIENT_SECRET')).toEqual(['********', 'environment'])
  expect(of('BANK_PROVIDUS_TIMEOUT_MS')).toBeUndefined()
})

test('has the faults that the start would print, and the risks', () => {
  const { faults } = explained({ DATABASE_URL: 'postgres://h/d', HTTP_PORT: 'x' })
  expect(faults).toEqual([
    'HTTP_PORT must be a port, 0 to 65535',
    expect.stringMatching(/^MASTER_KEY is required with DATABASE_URL/),
  ])
  const { risks } = explained({
    DATABASE_URL: 'postgres://h/d',
    MASTER_KEY: KEY,
    ALLOW_SIMULATED_LIVE_ACCOUNTS: 'on',
  })
  expect(risks.map(({ found }) => found)).toEqual([
    expect.stringMatching(/^ALLOW_SIMULATED_LIVE_ACCOUNTS is on/),
  ])
})

test.each([
  ['HTTP_PROT', 'HTTP_PORT'],
  ['http_port', 'HTTP_PORT'],
  ['BANK_PALMPAY_APPID', 'BANK_PALMPAY_APP_ID'],
  ['INFLOW_PORT_NAME', undefined],
  ['LOGLEVEL', 'LOG_LEVEL'],
])('finds that %s is not a setting', (name, similar) => {
  expect(explained({ [name]: '1' }).unknown).toMatchObject([{ name, similar }])
})

test.each([
  ['RECORD_REQUIRES_CONFIRMATIONS', '; did you mean RECORD_REQUIRES_CONFIRMATION?'],
  ['RECORD_CONFIRMATION', '; did you mean RECORD_REQUIRES_CONFIRMATION?'],
  ['TRUSTED_PROXY', '; did you mean TRUSTED_PROXIES?'],
  ['DATABASE_ULR', '; did you mean DATABASE_URL?'],
  ['MASTER_KEY_FIEL', '; did you mean MASTER_KEY_FILE?'],
  ['INFLOW_HTTP_PORT', '; did you mean HTTP_PORT?'],
  ['RECONCILE_SETTLE_MINUTES', '; did you mean RECONCILE_GRACE_MINUTES?'],
  ['BANK_PALMPAY_UNHEARD_OF', ''],
])('refuses %s, which is meant for Inflow and has no effect', (name, meant) => {
  expect(explained({ [name]: '1' }).faults).toEqual([`${name} is not a setting${meant}`])
})

test('refuses a misspelt name of any length in the file, which is for Inflow alone', () => {
  const database = { DATABASE_URL: 'postgres://h/d', MASTER_KEY: KEY }
  expect(explained(database, 'HTP_PORT=1\nTZ=UTC\n').faults).toEqual([
    'HTP_PORT is not a setting; did you mean HTTP_PORT?',
  ])
})

test('does not complain of what is for something else', () => {
  const names = [
    'HOME',
    'PORT',
    'HTTP_PROXY',
    'TLS_VERSION',
    'WEBHOOK_SECRET',
    'BANK_OF_ELSEWHERE',
    'MASTER_KEY_FILE',
    'INFLOW_TOKEN_FILE',
    'INFLOW_SECRET_KEY',
    'SMTP_PORT',
    'DATABASE_HOST',
    'DATABASE_NAME',
    'DATABASE_USER',
    'NATS_URL',
    'OTEL_METRICS_EXPORTER',
    'RATE_LIMIT_WINDOW',
  ]
  for (const name of names) expect(explained({ [name]: '1' }).unknown).toEqual([])
})

test('no address that Kubernetes gives a container is refused', () => {
  const services = ['INFLOW', 'INFLOW_GRPC', 'RECORD', 'TRUSTED_PROXY', 'DATABASE_URLS']
  const links = services.flatMap((service) => [
    [`${service}_SERVICE_HOST`, '10.0.0.1'],
    [`${service}_SERVICE_PORT`, '8080'],
    [`${service}_SERVICE_PORT_HTTP_INTERNAL`, '8080'],
    [`${service}_PORT`, 'tcp://10.0.0.1:8080'],
    [`${service}_PORT_8080_TCP`, 'tcp://10.0.0.1:8080'],
    [`${service}_PORT_8080_TCP_PROTO`, 'tcp'],
    [`${service}_PORT_8080_TCP_PORT`, '8080'],
    [`${service}_PORT_8080_TCP_ADDR`, '10.0.0.1'],
  ])
  expect(explained(Object.fromEntries(links))).toMatchObject({ unknown: [], faults: [] })
})

test('a name like that of a setting that is set is for something else', () => {
  const env = { DATABASE_URL: 'postgres://h/d', MASTER_KEY: KEY, DATABASE_SSL: 'true' }
  expect(explained(env)).toMatchObject({ unknown: [], faults: [] })
})

const MISSING =
  'DATABASE_URL is required in production (NODE_ENV=production, or --env-file): set it, or set DATA_DIR to use the embedded database on purpose'

test('a production start needs a database, or a data folder on purpose', () => {
  const NODE_ENV = 'production'
  expect(explained({ NODE_ENV }).faults).toEqual([MISSING])
  expect(explained({}, 'LOG_LEVEL=warn\n').faults).toEqual([MISSING])
  expect(explained({ NODE_ENV, DATABASE_URL: ' ', DATA_DIR: '' }).faults).toEqual([MISSING])
  expect(explained({ NODE_ENV, DATA_DIR: '/var/lib/inflow' }).faults).toEqual([])
  expect(explained({}, 'DATA_DIR=/var/lib/inflow\n').faults).toEqual([])
  const secretFile = join(temporaryFolder(), 'url')
  writeFileSync(secretFile, 'postgres://h/d\n')
  expect(explained({ NODE_ENV, DATABASE_URL_FILE: secretFile, MASTER_KEY: KEY }).faults).toEqual([])
  expect(explained({}).faults).toEqual([])
})

test('names everything in the file that is not a setting', () => {
  expect(explained({}, 'PORT=1\nHTTP_PORT=2\n').unknown).toEqual([
    { name: 'PORT', similar: undefined, refused: false },
  ])
})

test('says which secrets of the file others can read', () => {
  const text = `LOG_LEVEL=warn\nADMIN_TOKEN=x\n`
  expect(fileOf(text, 0o644).exposed).toEqual(['ADMIN_TOKEN'])
  expect(fileOf(text).exposed).toEqual([])
  expect(fileOf('LOG_LEVEL=warn\n', 0o644).exposed).toEqual([])
})

test.each([
  ['secret', '********'],
  ['postgres://u:p@h:1/d', 'postgres://u:********@h:1/d'],
  ['postgres://h/d', 'postgres://h/d'],
  ['postgres://h/d?password=p', 'postgres://h/d?********'],
  ['nats://token@h:1,nats://u:p@i:2', 'nats://********@h:1,nats://u:********@i:2'],
  ['nats://h:1,secret', '********'],
])('masks %s', (text, masked) => {
  expect(maskSecret(text)).toBe(masked)
})

test('config check prints every setting, and exits with 0 if the service would start', async () => {
  const { path } = fileOf(
    `DATABASE_URL=postgres://u:hidden@db/inflow\nMASTER_KEY=${KEY}\nHTTP_PORT=1\n`,
  )
  const check = ['config', 'check', '--env-file', path]
  const { code, stdout, stderr } = await runHere(check, { HTTP_PORT: '2' })
  expect([code, stderr]).toEqual([0, 'All settings are valid.\n'])
  expect(stdout).toMatch(/^SETTING +VALUE +SOURCE +DEFAULT\n/)
  expect(stdout).toMatch(/^HTTP_PORT +2 +environment +8080$/m)
  expect(stdout).not.toMatch(/hidden|AAUKDx/)
})

test('config check names misspelt settings and exposed secrets, and exits with 1 for faults', async () => {
  const { path } = fileOf('HTP_PORT=1\nPORT=1\nADMIN_TOKEN=short\nDATA_DIR=x\n', 0o644)
  const faults = [
    'HTP_PORT is not a setting; did you mean HTTP_PORT?',
    'ADMIN_TOKEN must be 32 to 200 printable ASCII characters without spaces',
  ]
  const check = ['config', 'check', '--env-file', path]
  expect(await runHere(check)).toMatchObject({
    code: 1,
    stderr:
      `warning: other users can read ADMIN_TOKEN in ${path}: chmod 600 ${path}\n` +
      'warning: PORT is not a setting\n' +
      `error: the service does not start\n${faults.map((fault) => `  ${fault}\n`).join('')}`,
  })
  expect(JSON.parse((await runHere([...check, '--json'])).stdout).faults).toEqual(faults)
})
