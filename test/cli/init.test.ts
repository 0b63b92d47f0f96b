import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { createTestDatabase, emptyDatabase, query } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startProcess } from '../support/process.ts'
import { postRest } from '../support/service.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'
import { inflow, runHere, startInflow } from './run-inflow.ts'

/** A database with the schema. */
async function migratedDatabase(): Promise<string> {
  const { url, drop } = await createTestDatabase()
  onTestFinished(drop)
  return url
}

const KEY = Buffer.alloc(32, 9).toString('base64')
const KEYS = { MASTER_KEY: undefined, ADMIN_TOKEN: undefined } as unknown as Record<string, string>

/** Runs `init`, which must fail with this code and error, and print nothing. */
async function expectRefused(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  code: number,
  text: RegExp | string,
) {
  const { stderr, ...outcome } = await runHere(['init', ...args], { ...KEYS, ...env })
  expect(outcome).toMatchObject({ code, stdout: '' })
  expect(stderr).toMatch(text)
}

test('prepares an empty database, from which the service then starts', async () => {
  const DATABASE_URL = await emptyDatabase()
  const file = join(temporaryFolder(), 'inflow.env')
  const args = ['init', '--database-url', DATABASE_URL, '--write-env', file, '--business', 'Acme']
  const first = await runHere(args, KEYS)
  expect(first.code).toBe(0)
  expect(first.stdout).toMatch(/^Schema +migrated: Migration\d+_initial/m)
  expect(first.stdout).toMatch(/^Master key +[0-9a-f]{8}, generated$/m)
  expect(first.stdout).toMatch(/^Business +biz_\w+ Acme, created$/m)
  const [, secretKey = ''] =
    /^Secret key +(\S+) \(live; shown only once\)$/m.exec(first.stdout) ?? []
  // Only the file has them.
  expect(first.stdout).not.toMatch(/MASTER_KEY=|inflow_admin_/)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const settings = parseEnv(readFileSync(file, 'utf8'))
  expect(Object.keys(settings).sort()).toEqual(['ADMIN_TOKEN', 'DATABASE_URL', 'MASTER_KEY'])

  const env = { ADMIN_TOKEN: undefined, MASTER_KEY: undefined }
  const running = await startProcess(env, false, undefined, ['--env-file', file])
  onTestFinished(running.kill)
  const list = (token: string) =>
    runHere(['business', 'list', '--json', '--url', running.grpcUrl], { INFLOW_TOKEN: token })
  const { stdout } = await list(settings['ADMIN_TOKEN'] ?? '')
  expect(JSON.parse(stdout).businesses).toHaveLength(1)
  expect((await postRest(running.httpUrl, secretKey, 'getBalance/', {})).status).toBe(200)
  await running.stop()
})

test('a second run says what exists, and changes nothing', async () => {
  const DATABASE_URL = await migratedDatabase()
  const file = join(temporaryFolder(), 'inflow.env')
  const args = ['init', '--write-env', file, '--business', 'Acme', '--key', 'test', '--json']
  const first = JSON.parse((await runHere(args, { ...KEYS, DATABASE_URL })).stdout)
  expect(first).toMatchObject({
    generated: ['MASTER_KEY', 'ADMIN_TOKEN'],
    envFile: file,
    mode: 'test',
    business: { name: 'Acme', created: true },
    secretKey: expect.stringMatching(/test/),
  })
  const text = readFileSync(file, 'utf8')
  // All that the service needs, wherever it came from.
  expect(parseEnv(text)).toEqual({
    DATABASE_URL,
    MASTER_KEY: expect.anything(),
    ADMIN_TOKEN: expect.anything(),
  })
  const entries = () => query(DATABASE_URL, 'select number, details from audit_entry')
  const before = await entries()
  const again = JSON.parse((await runHere(args, { ...KEYS, DATABASE_URL })).stdout)
  expect(again).toMatchObject({
    generated: [],
    migrations: [],
    masterKeyId: first.masterKeyId,
    hasAdminToken: true,
    business: { id: first.business.id, created: false },
  })
  expect(again).not.toHaveProperty('secretKey')
  expect(readFileSync(file, 'utf8')).toBe(text)
  expect(await entries()).toEqual(before)
})

test('takes keys that are set, and prints generated ones once without a file', async () => {
  const DATABASE_URL = await migratedDatabase()
  const ADMIN_TOKEN = 'token-of-the-operator-0123456789-ab'
  const { code, stdout } = await runHere(['init'], { ...KEYS, DATABASE_URL, ADMIN_TOKEN })
  expect(code).toBe(0)
  const [, MASTER_KEY = ''] = /^MASTER_KEY=(\S+)$/m.exec(stdout) ?? []
  expect(stdout).not.toContain(ADMIN_TOKEN)
  expect(stdout).toMatch(/^Admin token +as it was set$/m)
  expect(stdout).toMatch(/^Business +none: run this again with --business <name>$/m)
  const again = await runHere(['init', '--business', 'Acme'], {
    DATABASE_URL,
    ADMIN_TOKEN,
    MASTER_KEY,
  })
  expect(again.stdout).toMatch(/^Schema +up to date: nothing to migrate$/m)
  expect(again.stdout).toMatch(/Acme, created$/m)
  await expectRefused([], { DATABASE_URL }, 2, /^error: MASTER_KEY is required with DATABASE_URL/m)
  const other = 'MASTER_KEY is not the one that this database was encrypted with'
  await expectRefused([], { DATABASE_URL, MASTER_KEY: KEY }, 1, other)
})

test('the file has the settings that reach the database and open it, also given ones', async () => {
  const DATABASE_URL = await migratedDatabase()
  const folder = temporaryFolder()
  const file = join(folder, 'inflow.env')
  writeFileSync(join(folder, 'key'), KEY, { mode: 0o600 })
  const given = {
    DATABASE_URL,
    DATABASE_LISTEN_URL: DATABASE_URL,
    DATABASE_POOLING: 'transaction',
    MASTER_KEY_FILE: join(folder, 'key'),
    ADMIN_TOKEN: 'x'.repeat(32),
  }
  const args = ['--write-env', file]
  const env = { ...given, MASTER_KEY: '', LOG_LEVEL: 'warn' }
  const { code, stdout } = await runHere(['init', ...args], env)
  expect([code, stdout]).toEqual([0, expect.stringContaining(`- ${file}: the settings of every`)])
  expect(parseEnv(readFileSync(file, 'utf8'))).toEqual(given)
  const other = { ...given, ADMIN_TOKEN: 'y'.repeat(32) }
  await expectRefused(args, other, 1, `${file} exists without the current ADMIN_TOKEN`)
})

test('a run that is killed at any time is completed by the next', async () => {
  const DATABASE_URL = await emptyDatabase()
  const file = join(temporaryFolder(), 'inflow.env')
  const args = ['init', '--write-env', file, '--business', 'Acme']
  const env = { DATABASE_URL }
  // The first is killed once it has written the keys, the second when tables exist.
  const ended = [
    () => statSync(file).isFile(),
    async () =>
      (await query(DATABASE_URL, "select to_regclass('business') is not null as is"))[0]?.['is'],
  ]
  for (const condition of ended) {
    const running = startInflow(args, { env })
    await vi.waitFor(
      async () => expect(running.child.exitCode !== null || (await condition())).toBe(true),
      { timeout: WAIT_LIMIT_MS, interval: 5 },
    )
    running.child.kill('SIGKILL')
    await running.exit()
  }
  const key = parseEnv(readFileSync(file, 'utf8'))['MASTER_KEY']
  const { code, stdout } = await inflow(args, { env })
  expect(code).toBe(0)
  expect(stdout).toMatch(/^Business +biz_\w+ Acme, /m)
  expect(parseEnv(readFileSync(file, 'utf8'))['MASTER_KEY']).toBe(key)
  expect(await query(DATABASE_URL, 'select count(*)::int as count from business')).toEqual([
    { count: 1 },
  ])
})

test('two runs at once create one business', async () => {
  const DATABASE_URL = await migratedDatabase()
  const env = {
    DATABASE_URL,
    ADMIN_TOKEN: 'x'.repeat(32),
    MASTER_KEY: KEY,
  }
  const outcomes = await Promise.all(
    ['Acme', 'Other'].map((name) => inflow(['init', '--business', name], { env })),
  )
  expect(outcomes.map(({ code }) => code)).toEqual([0, 0])
  expect(outcomes.filter(({ stdout }) => stdout.includes(', created'))).toHaveLength(1)
})

test('a database that cannot be used is refused, and nothing is changed', async () => {
  const file = join(temporaryFolder(), 'inflow.env')
  const args = ['--write-env', file]
  const foreign = await emptyDatabase()
  await query(foreign, 'create table orders (id int)')
  const others = 'the schema public has 1 tables that do not belong to Inflow'
  await expectRefused(args, { DATABASE_URL: foreign }, 1, others)
  const latin = await emptyDatabase("encoding 'LATIN1' locale 'C' template template0")
  const encoding = 'the encoding of the database is LATIN1'
  await expectRefused(args, { DATABASE_URL: latin }, 1, encoding)
  const pending = { DATABASE_URL: await emptyDatabase(), MIGRATE: 'off' }
  const advice =
    /migrations are pending, and MIGRATE is off: nothing was changed\n.*\n.*inflow migrate up/
  await expectRefused(args, pending, 1, advice)
  expect(() => statSync(file)).toThrow('ENOENT')
  expect((await runHere(['init'], KEYS)).code).toBe(2)
})

test('a role that may not create tables is advised to migrate as the owner first', async () => {
  const url = await emptyDatabase()
  const role = `service_${Math.random().toString(36).slice(2)}`
  await query(url, `create role ${role} login password 'x'`)
  onTestFinished(async () => void (await query(inject('serverUrl'), `drop role ${role}`)))
  const grants = `alter default privileges grant select, insert, update, delete on tables to ${role};
    alter default privileges grant usage on sequences to ${role}`
  await query(url, grants)
  const own = new URL(url)
  own.username = role
  own.password = 'x'
  const env = { DATABASE_URL: own.href, MASTER_KEY: KEY, ADMIN_TOKEN: 'x'.repeat(32) }
  const args = ['--business', 'Acme']
  const text = `the role ${role} may not create or alter tables`
  await expectRefused(args, env, 1, text)
  expect((await runHere(['migrate', 'up'], { DATABASE_URL: url })).code).toBe(0)
  const after = await runHere(['init', ...args], env)
  expect([after.code, after.stderr]).toEqual([0, expect.not.stringContaining('error')])
  expect(after.stdout).toMatch(/Acme, created/)
  await query(url, `drop owned by ${role}`)
})

test('a file that exists is never overwritten, and invalid options are refused', async () => {
  const DATABASE_URL = await emptyDatabase()
  const file = join(temporaryFolder(), 'inflow.env')
  writeFileSync(file, 'LOG_LEVEL=warn\n', { mode: 0o600 })
  const env = { DATABASE_URL }
  const lacking = `${file} exists without the current DATABASE_URL, MASTER_KEY, ADMIN_TOKEN, and is never overwritten`
  await expectRefused(['--write-env', file], env, 1, lacking)
  expect(readFileSync(file, 'utf8')).toBe('LOG_LEVEL=warn\n')
  const unnamed = '--business must be 1 to 100 characters'
  await expectRefused(['--business', 'a\nb'], env, 2, unnamed)
  await expectRefused(['--json'], env, 2, '--json needs --write-env')
  expect(await query(DATABASE_URL, "select to_regclass('business') as is")).toEqual([{ is: null }])
})
