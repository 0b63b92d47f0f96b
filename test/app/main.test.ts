import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { auditSettings } from '../../src/app/run.ts'
import { readConfig } from '../../src/config/config.ts'
import { useDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startInstance } from '../support/instance.ts'
import { listen } from '../support/listen.ts'
import { MASTER_KEY as KEY } from '../support/master-key.ts'
import { SYSTEM } from '../support/operator.ts'
import { startProcess } from '../support/process.ts'
import { runProgram } from '../support/program.ts'
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
const start = (
  env: NodeJS.ProcessEnv,
  args: readonly string[] = [],
  ofNode: readonly string[] = [],
) =>
  runProgram([process.execPath, ...ofNode, MAIN, ...args], {
    HTTP_PORT: '0',
    GRPC_PORT: '0',
    MASTER_KEY,
    // Without an administrator, the log has a warning.
    ADMIN_TOKEN,
    LOG_LEVEL: 'error',
    ...env,
  })

test('a failed start prints the fault of the setting and exits with 1, with workers too', async () => {
  const taken = createServer()
  onTestFinished(() => void taken.close())
  const port = `${await listen(taken)}`
  const folder = temporaryFolder()
  const [readable, bare] = [join(folder, 'readable.env'), join(folder, 'bare.env')]
  const lines = `DATABASE_URL='${db.url}'\nHTTP_PORT=x\nLOG_LEVEL=warn\n`
  writeFileSync(readable, lines, { mode: 0o644 })
  writeFileSync(bare, 'LOG_LEVEL=warn\n', { mode: 0o600 })
  const unset = { HTTP_PORT: undefined, LOG_LEVEL: undefined }
  // A file of settings is one for production, also if Node reads it.
  const needsDatabase = /^inflow: DATABASE_URL is required in production [^\n]+\n$/
  const cases: [expected: string | RegExp, ...Parameters<typeof start>][] = [
    [
      /^inflow: HTTP_PORT must be a port, 0 to 65535\ninflow: LOG_LEVEL must be one of [a-z, ]+\n$/,
      { HTTP_PORT: 'x', LOG_LEVEL: 'y' },
    ],
    [
      /^inflow: DATABASE_URL cannot be used: connect ECONNREFUSED 127.0.0.1:1\n$/,
      { DATABASE_URL: 'postgres://127.0.0.1:1/x' },
    ],
    [
      /^inflow: DATABASE_URL cannot be used: database "mistyped" does not exist on that server: correct the name, or create it\n$/,
      { DATABASE_URL: db.url.replace(/[^/]*$/, 'mistyped') },
    ],
    [
      /^inflow: migrations are pending \(Migration\d+_initial, .*\): run `inflow migrate up`\n$/,
      { DATABASE_URL: outdated.url, MIGRATE: 'off' },
    ],
    [
      new RegExp(`^inflow: HTTP_PORT ${port} is in use: choose another[^\n]+\n$`),
      { DATABASE_URL: db.url, HTTP_PORT: port },
    ],
    [
      new RegExp(`^inflow: GRPC_PORT ${port} is in use: choose another[^\n]+\n$`),
      { DATABASE_URL: db.url, GRPC_PORT: port, WORKERS: '2' },
    ],
    [
      `inflow: warning: other users can read DATABASE_URL in ${readable}: chmod 600 ${readable}\n` +
        'inflow: HTTP_PORT must be a port, 0 to 65535\n',
      unset,
      ['--env-file', readable],
    ],
    ['inflow: the only option of a start is --env-file <file>\n', {}, ['--port', '1']],
    [needsDatabase, unset, ['--env-file', bare]],
    [needsDatabase, unset, [], [`--env-file=${bare}`]],
  ]
  const results = await Promise.all(cases.map(([, ...given]) => start(...given)))
  for (const [index, [expected, ...given]] of cases.entries()) {
    const { code, stdout, stderr } = results[index]!
    expect([given, code, stdout]).toEqual([given, 1, ''])
    if (typeof expected === 'string') expect(stderr).toBe(expected)
    else expect(stderr).toMatch(expected)
  }
})

test('a host without an address is a fault of HOST', async () => {
  const starting = startInstance(db.url, { host: 'nowhere.invalid' })
  await expect(starting).rejects.toThrow(/^cannot listen at HOST nowhere.invalid: [^\n]+$/)
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
    ...settings,
    ALLOW_SIMULATED_LIVE_ACCOUNTS,
    LOG_LEVEL: 'warn',
    ADMIN_TOKEN: undefined,
  }
  const service = await startProcess(env, true)
  onTestFinished(service.kill)
  const found = /ALLOW_SIMULATED_LIVE_ACCOUNTS is on: the sandbox opens live accounts at 9PSB, /g
  // A thread writes the log, into another pipe than the one that says that the service is ready.
  await waitFor(() => expect(service.output()).toContain(UNADMINISTERED))
  expect(service.output().match(found)).toHaveLength(1)
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

test('workers have the settings of --env-file and of secret files too, and end when the primary process is killed', async () => {
  const folder = temporaryFolder()
  const path = join(folder, 'inflow.env')
  writeFileSync(join(folder, 'master.key'), `${MASTER_KEY}\n`, { mode: 0o600 })
  const lines = [`MASTER_KEY_FILE='${join(folder, 'master.key')}'`, 'WORKERS=2', 'LOG_LEVEL=info']
  writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o600 })
  const env = {
    DATABASE_URL: db.url,
    MASTER_KEY: undefined,
    WORKERS: undefined,
    LOG_LEVEL: undefined,
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
