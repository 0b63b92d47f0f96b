import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import pino from 'pino'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { auditSettings } from '../../src/app/run.ts'
import { startService } from '../../src/app/start-service.ts'
import { readConfig } from '../../src/config/config.ts'
import { systemClock } from '../../src/core/clock.ts'
import { temporaryFolder } from '../cli/run-inflow.ts'
import { useDatabase } from '../support/database.ts'
import { MASTER_KEY as KEY } from '../support/master-key.ts'
import { SYSTEM } from '../support/operator.ts'
import { startProcess } from '../support/process.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { isAlive, workersOf } from '../support/workers.ts'

const db = useDatabase(2)
const outdated = useDatabase(2)

beforeAll(async () => {
  await outdated.database.durablePool.query('delete from schema_migration')
})

/** What the log says if no setting lets a caller administer. */
const UNADMINISTERED = 'no caller can administer this service'

const MAIN = join(import.meta.dirname, '../../src/main.ts')
const MASTER_KEY = KEY.toString('base64')

/** Runs the service with settings that it rejects. */
async function start(
  env: NodeJS.ProcessEnv,
  args: readonly string[] = [],
  ofNode: readonly string[] = [],
) {
  const child = spawn(process.execPath, [...ofNode, MAIN, ...args], {
    env: {
      PATH: process.env['PATH'],
      HTTP_PORT: '0',
      GRPC_PORT: '0',
      MASTER_KEY,
      // Without an administrator, the log has a warning.
      ADMIN_TOKEN,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  let errors = ''
  child.stdout.on('data', (text) => {
    output += text
  })
  child.stderr.on('data', (text) => {
    errors += text
  })
  const [code] = await once(child, 'close')
  return { code, output, errors }
}

test('a failed start prints the fault of the setting and exits with 1, with workers too', async () => {
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void taken.close())
  const port = `${(taken.address() as AddressInfo).port}`
  const cases: [NodeJS.ProcessEnv, RegExp][] = [
    [
      { HTTP_PORT: 'x', LOG_LEVEL: 'y' },
      /^inflow: HTTP_PORT must be a port, 0 to 65535\ninflow: LOG_LEVEL must be one of [a-z, ]+\n$/,
    ],
    [
      { DATABASE_URL: 'postgres://127.0.0.1:1/x' },
      /^inflow: DATABASE_URL cannot be used: connect ECONNREFUSED 127.0.0.1:1\n$/,
    ],
    [
      { DATABASE_URL: db.url, HTTP_PORT: port },
      new RegExp(`^inflow: HTTP_PORT ${port} is in use: choose another[^\n]+\n$`),
    ],
    [
      { DATABASE_URL: db.url, GRPC_PORT: port, WORKERS: '2' },
      new RegExp(`^inflow: GRPC_PORT ${port} is in use: choose another[^\n]+\n$`),
    ],
  ]
  const results = await Promise.all(cases.map(([env]) => start({ LOG_LEVEL: 'error', ...env })))
  for (const [index, [env, expected]] of cases.entries()) {
    const { code, output, errors } = results[index]!
    expect([env, code, output]).toEqual([env, 1, ''])
    expect(errors).toMatch(expected)
  }
})

test('a host without an address is a fault of HOST', async () => {
  const env = { HTTP_PORT: '0', GRPC_PORT: '0', HOST: 'nowhere.invalid' }
  const starting = startService({
    ...{ config: readConfig(env), database: db.database, masterKey: KEY, adminToken: ADMIN_TOKEN },
    ...{ clock: systemClock, log: pino({ level: 'silent' }), localWebhooks: true },
  })
  await expect(starting).rejects.toThrow(/^cannot listen at HOST nowhere.invalid: [^\n]+$/)
})

test('a database that does not exist, and a schema of an older version, are refused', async () => {
  const cases: [NodeJS.ProcessEnv, RegExp][] = [
    [
      { DATABASE_URL: db.url.replace(/[^/]*$/, 'mistyped') },
      /^inflow: DATABASE_URL cannot be used: database "mistyped" does not exist on that server: correct the name, or create it\n$/,
    ],
    [
      { DATABASE_URL: outdated.url, MIGRATE: 'off' },
      /^inflow: migrations are pending \(Migration\d+_initial, .*\): run `inflow migrate up`\n$/,
    ],
  ]
  const results = await Promise.all(cases.map(([env]) => start(env)))
  for (const [index, [, expected]] of cases.entries()) {
    expect(results[index]).toMatchObject({ code: 1, output: '' })
    expect(results[index]?.errors).toMatch(expected)
  }
})

test('simulated live accounts, and that no caller can administer, are logged at a start; the former is audited when it changes', async () => {
  const { durablePool } = db.database
  const audited = async () => {
    const { rows } = await durablePool.query(
      "select details from audit_entry where action = 'setting.change' order by number",
    )
    return rows.map(({ details }) => JSON.parse(details))
  }
  const settings = { DATABASE_URL: db.url, MASTER_KEY }
  const configOf = (env: NodeJS.ProcessEnv) => readConfig({ ...settings, ...env })
  const audit = (env: NodeJS.ProcessEnv) => auditSettings(durablePool, configOf(env), SYSTEM)
  await audit({})
  expect(await audited()).toEqual([])

  const ALLOW_SIMULATED_LIVE_ACCOUNTS = 'on'
  const env = {
    ...{ ...settings, ALLOW_SIMULATED_LIVE_ACCOUNTS, LOG_LEVEL: 'warn' },
    ADMIN_TOKEN: undefined,
  }
  const service = await startProcess(env, true)
  onTestFinished(service.kill)
  const found = /ALLOW_SIMULATED_LIVE_ACCOUNTS is on: the sandbox opens live accounts at 9PSB, /g
  expect(service.output().match(found)).toHaveLength(1)
  expect(service.output()).toContain(UNADMINISTERED)
  expect(await service.stop()).toBe(0)
  const on = { value: 'on', banks: ['9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY'] }
  expect(await audited()).toEqual([on])

  // Later starts, of several instances at once.
  const again = { ALLOW_SIMULATED_LIVE_ACCOUNTS }
  await Promise.all([audit(again), audit(again)])
  expect(await audited()).toEqual([on])
  await Promise.all([audit({}), audit({})])
  expect(await audited()).toEqual([on, { value: 'off' }])
})

test('--env-file has settings, and a start has no other option', async () => {
  const folder = temporaryFolder()
  const path = join(folder, 'inflow.env')
  writeFileSync(path, `DATABASE_URL='${db.url}'\nHTTP_PORT=x\nLOG_LEVEL=warn\n`, { mode: 0o644 })
  const refused = await start({ HTTP_PORT: undefined }, ['--env-file', path])
  expect(refused).toEqual({
    code: 1,
    output: '',
    errors:
      `inflow: warning: other users can read DATABASE_URL in ${path}: chmod 600 ${path}\n` +
      'inflow: HTTP_PORT must be a port, 0 to 65535\n',
  })
  const unknown = await start({}, ['--port', '1'])
  expect(unknown).toMatchObject({
    ...{ code: 1, errors: 'inflow: the only option of a start is --env-file <file>\n' },
  })
})

test('a start with a file of settings is one for production, which needs a database', async () => {
  const path = join(temporaryFolder(), 'inflow.env')
  writeFileSync(path, 'LOG_LEVEL=warn\n', { mode: 0o600 })
  const missing = {
    ...{ code: 1, output: '' },
    errors: expect.stringMatching(/^inflow: DATABASE_URL is required in production [^\n]+\n$/),
  }
  expect(await start({}, ['--env-file', path])).toEqual(missing)
  expect(await start({}, [], [`--env-file=${path}`])).toEqual(missing)
})

test('workers have the settings of --env-file and of secret files too, and end when the primary process is killed', async () => {
  const folder = temporaryFolder()
  const path = join(folder, 'inflow.env')
  writeFileSync(join(folder, 'master.key'), `${MASTER_KEY}\n`, { mode: 0o600 })
  const lines = [`MASTER_KEY_FILE='${join(folder, 'master.key')}'`, 'WORKERS=2', 'LOG_LEVEL=info']
  writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o600 })
  const env = {
    ...{ DATABASE_URL: db.url, MASTER_KEY: undefined },
    ...{ WORKERS: undefined, LOG_LEVEL: undefined },
  }
  const service = await startProcess(env, true, undefined, ['--env-file', path])
  onTestFinished(service.kill)
  await waitUntil(() => workersOf(service).size === 2)
  expect(service.output()).not.toContain(UNADMINISTERED)
  const pids = [...workersOf(service).values()]
  expect(pids.filter(isAlive)).toEqual(pids)
  await service.kill()
  await waitFor(() => expect(pids.filter(isAlive)).toEqual([]))
})
