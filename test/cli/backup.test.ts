import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { mkdir, rm, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { backupName, newestBackupMs } from '../../src/postgres/backups/backup.ts'
import { has } from '../support/embedded-service.ts'
import { makeFolder } from '../support/folder.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { waitFor } from '../support/wait-for.ts'
import { inflow, runHere, startInflow } from './run-inflow.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const VERIFIER = '/usr/lib/postgresql/15/bin/pg_verifybackup'

let folder: string
let service: ServiceProcess
/** The first backup, which no test changes. */
let first: string
const at = (...names: string[]) => join(folder, ...names)
const env = () => ({ DATA_DIR: at('data') })

beforeAll(async () => {
  folder = await makeFolder('backup')
  service = await startProcess({ DATA_DIR: at('data'), MASTER_KEY: undefined })
  const made = await runHere(['backup', 'create'], env())
  expect([made.code, made.stderr]).toEqual([
    0,
    expect.stringMatching(
      /Copied \S+ MiB\. Check it: inflow backup check\nIt has no master key: keep .*\n$/,
    ),
  ])
  first = made.stdout.trim()
})

afterAll(async () => {
  await service.stop()
  await rm(folder, { recursive: true, force: true })
})

test('a backup of a running service is beside its data folder, complete, and closed to others', () => {
  expect(first).toMatch(/\/data-backups\/\d{8}T\d{6}Z$/)
  expect(readdirSync(join(first, '..'))).toEqual([first.split('/').at(-1)])
  expect(readdirSync(first).sort()).toEqual(['backup.json', 'data', 'postgres.password'])
  for (const path of [first, join(first, 'data')]) expect(statSync(path).mode & 0o777).toBe(0o700)
  for (const name of readdirSync(join(first, 'data/global'))) {
    expect(statSync(join(first, 'data/global', name)).mode & 0o777).toBe(0o600)
  }
  expect(existsSync(join(first, 'data/postmaster.pid'))).toBe(false)
  expect(readFileSync(join(first, 'data/backup_label'), 'utf8')).toMatch(/^START WAL LOCATION/)
})

test.skipIf(!has(VERIFIER))("PostgreSQL's own pg_verifybackup finds it sound", () => {
  const report = execFileSync(VERIFIER, ['-n', join(first, 'data')], { encoding: 'utf8' })
  expect(report).toBe('backup successfully verified\n')
})

test('check restores a copy, verifies it, and removes it', async () => {
  const { code, stdout, stderr } = await inflow(['backup', 'check'], { env: env() })
  expect([code, stderr]).toEqual([
    0,
    expect.stringMatching(/Schema, ledger and audit log are sound\.\n$/),
  ])
  expect(stdout).toMatch(
    new RegExp(
      `^Checked +${first}\n` +
        String.raw`Contains all until +2\d{3}-.*\nLatest payment +none\n` +
        String.raw`Ledger +0 transactions with 0 postings\nEvents +\d+ positions, epoch 1\n` +
        String.raw`Audit log +[1-9]\d* entries\nAudit head +[0-9a-f]{64}\nMaster key +given\n$`,
    ),
  )
  expect(readdirSync(join(first, '..'))).toEqual([first.split('/').at(-1)])
})

describe('check fails', () => {
  test('without the master key, and with another one', async () => {
    const without = await inflow(['backup', 'check', first], { env: { DATA_DIR: at('none') } })
    expect(without.code).toBe(1)
    expect(without.stdout).toContain('Problem: no master key was given')
    const MASTER_KEY = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 7)).toString('base64')
    const other = await inflow(['backup', 'check', first], { env: { MASTER_KEY } })
    expect(other.code).toBe(1)
    expect(other.stdout).toContain('Problem: MASTER_KEY is not the one that this database was')
    expect(other.stderr).toContain('error: 1 problems were found')
  })

  /** Each changes a file, and has the file as it was. */
  test.each<[string, string, (file: string, content: Buffer) => unknown, RegExp]>([
    [
      'for a changed byte',
      'global/pg_control',
      (file, content) => writeFileSync(file, content.with(100, (content[100] ?? 0) ^ 1)),
      /global\/pg_control: its checksum does not match/,
    ],
    ['for a missing file', 'PG_VERSION', (file) => rm(file), /PG_VERSION: it is missing/],
    [
      'for a changed manifest',
      'backup_manifest',
      (file, content) => writeFileSync(file, content.toString().replace('"Size":3', '"Size":4')),
      /backup_manifest is damaged: its checksum does not match/,
    ],
  ])('%s', async (_name, name, damage, message) => {
    const file = join(first, 'data', name)
    const content = readFileSync(file)
    await damage(file, content)
    const { code, stdout, stderr } = await runHere(['backup', 'check', first], env())
    writeFileSync(file, content)
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(message)])
    expect(readdirSync(join(first, '..'))).toEqual([first.split('/').at(-1)])
  })

  test('for a file that was added', async () => {
    const extra = join(first, 'data/base/extra')
    writeFileSync(extra, '')
    const { code, stderr } = await runHere(['backup', 'check', first], env())
    await rm(extra)
    const reason = `error: the backup is damaged: ${extra}: the manifest does not list it\n`
    expect([code, stderr]).toEqual([1, reason])
  })

  test('where there is no backup', async () => {
    await mkdir(at('empty'))
    const { code, stderr } = await runHere(['backup', 'check', at('empty')], env())
    expect([code, stderr]).toEqual([1, `error: there is no backup in ${at('empty')}\n`])
  })
})

test('with DATABASE_URL, check verifies that database in place', async () => {
  const password = readFileSync(at('data/postgres.password'), 'utf8')
  const port = readFileSync(at('data/postgres/postmaster.pid'), 'utf8').split('\n')[3]
  const database = {
    DATABASE_URL: `postgres://inflow:${password}@127.0.0.1:${port}/inflow`,
    MASTER_KEY: readFileSync(at('data/master.key'), 'utf8').trim(),
  }
  const { code, stdout } = await runHere(['backup', 'check', '--json'], database)
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({
    ...{ subject: `the database 127.0.0.1:${port}/inflow`, problems: [], transactions: 0 },
    ...{ masterKey: 'given', epoch: 1 },
  })
  const create = await runHere(['backup', 'create'], database)
  expect([create.code, create.stderr]).toEqual([2, expect.stringMatching(/DATABASE_URL is set/)])
})

test('restore makes a data folder once, on which a service starts with the key', async () => {
  const target = at('restored')
  const args = ['backup', 'restore', join(first, '..'), '--data-dir', target]
  const restored = await inflow(args, { env: { DATA_DIR: at('none') } })
  expect([restored.code, restored.stdout]).toEqual([0, `Restored ${first} into ${target}\n`])
  expect(restored.stderr).toContain('put the master key of that time into')
  expect(readdirSync(target).sort()).toEqual(['postgres', 'postgres.password'])
  const again = await runHere(args, env())
  expect([again.code, again.stderr]).toEqual([
    1,
    `error: ${target}/postgres exists: restore into a new data folder\n`,
  ])
  writeFileSync(join(target, 'master.key'), readFileSync(at('data/master.key')), { mode: 0o600 })
  const next = await startProcess(
    { DATA_DIR: target, MASTER_KEY: undefined, LOG_LEVEL: 'warn' },
    true,
  )
  await waitFor(() => expect(next.output()).toContain('a new epoch begins'))
  expect(await next.stop()).toBe(0)
})

test('create keeps the newest, and takes the keys when asked to', async () => {
  const to = at('kept')
  const made: string[] = []
  for (const extra of [[], [], ['--keep', '2', '--with-keys', '--json']]) {
    // Names have whole seconds.
    const name = backupName(new Date())
    await waitFor(() => expect(backupName(new Date())).not.toBe(name))
    const { code, stdout, stderr } = await runHere(
      ['backup', 'create', '--to', to, ...extra],
      env(),
    )
    expect(code, stderr).toBe(0)
    made.push(extra.length === 0 ? stdout.trim() : JSON.parse(stdout).path)
    if (extra.length > 0) expect(JSON.parse(stdout)).toMatchObject({ removed: [made[0]] })
  }
  expect(readdirSync(to).map((name) => join(to, name))).toEqual(made.slice(1))
  expect(readdirSync(join(made[2] ?? '', 'keys'))).toContain('master.key')
  const listed = await runHere(['backup', 'list', to], env())
  expect(listed.stdout).toMatch(
    /^CONTAINS ALL UNTIL +SIZE +POSTGRESQL +KEYS +BACKUP\n.* no .*\n.* yes /,
  )
  const target = at('with-keys')
  const restored = await runHere(['backup', 'restore', to, '--data-dir', target], env())
  expect(restored.code).toBe(0)
  expect(readFileSync(join(target, 'master.key'))).toEqual(readFileSync(at('data/master.key')))
})

test('an interrupted backup leaves nothing, and one that was killed no backup', async () => {
  const to = at('interrupted')
  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    const running = startInflow(['backup', 'create', '--to', to], { env: env() })
    await waitFor(() => expect(readdirSync(to).filter((name) => name[0] === '.')).toHaveLength(1))
    running.child.kill(signal)
    await running.exit()
    expect(readdirSync(to).filter((name) => name[0] !== '.')).toEqual([])
    if (signal === 'SIGINT') expect(readdirSync(to)).toEqual([])
  }
  const next = await runHere(['backup', 'create', '--to', to], env())
  expect(next.code).toBe(0)
  expect(readdirSync(to)).toHaveLength(1)
})

test('doctor and the metrics state the age of the newest backup', async () => {
  const areaOf = async (more: Record<string, string>) => {
    const { stdout } = await runHere(['doctor', '--json'], { ...env(), ...more })
    const { findings } = JSON.parse(stdout) as { findings: Record<string, string>[] }
    return findings
      .filter(({ area }) => area === 'Backups')
      .map(({ level, found }) => `${level}: ${found}`)
  }
  expect(await areaOf({})).toEqual([
    `ok: the newest backup in ${at('data-backups')} is 0 hours old`,
  ])
  const BACKUP_DIR = at('old')
  expect(await areaOf({ BACKUP_DIR })).toEqual([`ok: there is no backup in ${BACKUP_DIR}`])
  await mkdir(BACKUP_DIR)
  const old = backupName(new Date(Date.now() - 50 * 3_600_000))
  await mkdir(join(BACKUP_DIR, old))
  expect(await areaOf({ BACKUP_DIR })).toEqual([
    `warn: the newest backup in ${BACKUP_DIR} is 50 hours old`,
  ])
  await rm(join(BACKUP_DIR, old), { recursive: true })
  const created = new Date(Date.now() - 50 * 3_600_000)
  await utimes(at('data/postgres/PG_VERSION'), created, created)
  expect(await areaOf({ BACKUP_DIR })).toEqual([`warn: there is no backup in ${BACKUP_DIR}`])

  const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
  const newest = await newestBackupMs(at('data-backups'))
  expect(metrics).toContain(
    `\ninflow_backup_timestamp_seconds{folder="${at('data-backups')}"} ${(newest ?? 0) / 1_000}\n`,
  )
  expect(metrics).toContain('\ninflow_wal_archive_failing 0\n')
})
