import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Finding } from '../../src/doctor/finding.ts'
import { useDatabase } from '../support/database.ts'
import { writeEvents } from '../support/events.ts'
import { makeFolder } from '../support/folder.ts'
import { startProcess } from '../support/process.ts'
import { startReceiver } from '../support/receiver.ts'
import { MASTER_KEY, useService } from '../support/service.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'
import { runHere, temporaryFolder } from './run-inflow.ts'

vi.setConfig({ testTimeout: 60_000 })

const service = useService()
/** One that no service is at. */
const idle = useDatabase(2)

/** The checks, of the database unless told otherwise. @returns those that are not well */
async function examine(env: Readonly<Record<string, string>>, ...args: string[]) {
  const settings = {
    DATABASE_URL: idle.url,
    MASTER_KEY: MASTER_KEY.toString('base64'),
    DATA_DIR: temporaryFolder(),
    ...env,
  }
  const { code, stdout, stderr } = await runHere(['doctor', '--json', ...args], settings)
  const findings: Finding[] = JSON.parse(stdout).findings
  const unwell = findings.filter(({ level }) => level !== 'ok')
  return { code, stderr, findings, lines: unwell.map((each) => `${each.level}: ${each.found}`) }
}

test('a service in embedded mode is well, while it runs and when it does not', async () => {
  const folder = await makeFolder('doctor')
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const running = await startProcess({ DATA_DIR: folder, MASTER_KEY: undefined })
  const well = await runHere(['doctor'], { DATA_DIR: folder })
  expect([well.code, well.stderr]).toEqual([0, 'All is well.\n'])
  expect(well.stdout).not.toMatch(/warn|fail/)
  for (const line of [
    /^Settings\n {2}✓ ok {4}all can be read/m,
    /✓ ok {4}PostgreSQL 18\S+ at 127\.0\.0\.1:\d+ answers; its time zone is UTC/,
    /✓ ok {4}what is committed is on disk/,
    /✓ ok {4}the schema is up to date/,
    /✓ ok {4}the master key [0-9a-f]{8} fits the database/,
    /✓ ok {4}gRPC at http:\S+ serves/,
    /✓ ok {4}HTTP at http:\S+ is ready/,
  ]) {
    expect(well.stdout).toMatch(line)
  }

  await running.stop()
  chmodSync(join(folder, 'credentials.json'), 0o644)
  const stopped = await runHere(['doctor'], { DATA_DIR: folder })
  expect(stopped.code).toBe(1)
  expect(stopped.stdout).toMatch(/✓ ok {4}PostgreSQL/)
  expect(stopped.stdout).toMatch(
    /✗ fail {2}others may read \S+credentials.json\n +→ chmod 600 \S+credentials.json\n/,
  )
  expect(stopped.stdout).toMatch(/✗ fail {2}gRPC at http:\S+ does not serve: /)
  expect(stopped.stderr).toMatch(/error: 3 of these must be put right\n$/)
})

test('before the first start there is nothing to fail', async () => {
  const DATA_DIR = join(temporaryFolder(), 'none')
  const { code, stdout, stderr } = await runHere(['doctor'], { DATA_DIR })
  expect([code, stderr]).toEqual([0, 'Nothing fails; 2 to think about.\n'])
  expect(stdout).toMatch(/! warn {2}there is no database in .* yet/)
  expect(stdout).toMatch(/! warn {2}no running service was found\n +→ start one: npm start/)
})

test('settings that are wrong or weak are told, without being shown', async () => {
  const wrong = await examine({ HTTP_PORT: 'x', MASTER_KEY: 'hidden' })
  expect(wrong.code).toBe(1)
  expect(wrong.lines).toContain('fail: HTTP_PORT must be a port, 0 to 65535')
  expect(JSON.stringify(wrong)).not.toContain('hidden')

  const weak = await examine({
    HOST: '0.0.0.0',
    ADMIN_TOKEN: 'hiddenhiddenhidden',
    LOG_LEVEL: 'trace',
    WEBHOOK_ALLOWED_CIDRS: '0.0.0.0/0',
  })
  for (const line of [
    /^warn: HOST 0\.0\.0\.0 opens the doors/,
    /^warn: GRPC_REFLECTION shows the contract/,
    /^warn: ADMIN_TOKEN is short or regular/,
    /^fail: MASTER_KEY is not random/,
    /^warn: LOG_LEVEL trace costs/,
    /^warn: WEBHOOK_ALLOWED_CIDRS 0\.0\.0\.0\/0 lets/,
    /^warn: simulated banks: 9PSB, SAFEHAVEN, PROVIDUS, PALMPAY; no real money/,
  ]) {
    expect(weak.lines).toContainEqual(expect.stringMatching(line))
  }
  expect(JSON.stringify(weak)).not.toContain('hiddenhidden')
})

test('more workers than there is room for are told of', async () => {
  const many = await examine({ DATABASE_URL: idle.url, WORKERS: '64' })
  expect(many.lines).toContainEqual(
    expect.stringMatching(/^warn: WORKERS 64 is more than the \d+ cores of this machine/),
  )
  expect(many.lines).toContainEqual(
    expect.stringMatching(/^fail: \d+ of \d+ connections are in use; an instance with 64 workers/),
  )
})

test('a database that would lose commits fails, and so does one that is away', async () => {
  // The server of the tests has fsync off.
  const { code, lines } = await examine({})
  expect(code).toBe(1)
  expect(lines).toContainEqual(
    expect.stringMatching(/^fail: fsync is off: a power failure may lose/),
  )
  const away = await examine({ DATABASE_URL: 'postgres://inflow:hidden@127.0.0.1:1/x' })
  expect(away.lines).toContainEqual(
    expect.stringMatching(/^fail: cannot reach the database at 127\.0\.0\.1:1/),
  )
  expect(JSON.stringify(away)).not.toContain('hidden')
})

test('a master key that is not the database’s fails; one too many is told', async () => {
  const other = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 7)).toString('base64')
  const wrong = await examine({ DATABASE_URL: service.url, MASTER_KEY: other })
  expect(wrong.lines).toContain(
    'fail: MASTER_KEY is not the one that this database was encrypted with',
  )
  const spare = await examine({ DATABASE_URL: service.url, MASTER_KEY_PREVIOUS: other })
  expect(spare.lines).toContainEqual(expect.stringMatching(/^warn: nothing needs the earlier key/))
})

test('migrations that are pending, events and webhooks that wait, are told', async () => {
  const { pool } = idle.database
  const before = await examine({})
  expect(before.findings.filter(({ area, level }) => area === 'Events' && level !== 'ok')).toEqual(
    [],
  )

  await pool.query("delete from schema_migration where name like '%identity'")
  await writeEvents(pool, 3)
  await pool.query("update outbox set occurred_at = now() - interval '2 hours'")
  await pool.query("insert into business values ('biz_1', 'x', 'x', now())")
  await pool.query(
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
        after_position, created_at)
      values ('ep_1', 'biz_1', true, 'https://x.example', '{}', '', 1, 0, now())`,
  )
  await pool.query(
    `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
        created_at)
      values ('dlv_1', 'ep_1', 1, 'PENDING', 0, now() - interval '5 minutes', 0, now())`,
  )
  const { lines } = await examine({})
  expect(lines).toContainEqual(
    expect.stringMatching(/^warn: migrations are pending: Migration\d+_identity$/),
  )
  expect(lines).toContain('fail: 3 events wait for their place in the log, the oldest for 2 hours')
  expect(lines).toContain('warn: 1 webhooks are due, the oldest for 5 minutes')
})

test('a service that is somewhere else is asked at its gRPC door', async () => {
  const { findings } = await examine({ INFLOW_GRPC_URL: service.grpcUrl })
  expect(findings.filter(({ area }) => area === 'Service')).toEqual([
    { area: 'Service', level: 'ok', found: `gRPC at ${service.grpcUrl} serves`, advice: '' },
  ])
  const gone = await examine({}, '--url', 'http://127.0.0.1:1')
  expect(gone.lines).toContainEqual(
    expect.stringMatching(/^fail: gRPC at http:\/\/127\.0\.0\.1:1 does not serve: /),
  )
})

test('a service that speaks TLS is well by the authority that its callers trust', async () => {
  const folder = await makeFolder('doctor')
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const authority = makeCertificate({ commonName: 'Authority', hosts: [], addresses: [] })
  const { cert, key } = makeCertificate({ issuer: authority })
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const TLS_CERT = file('cert.pem', cert)
  const TLS_KEY = file('key.pem', key)
  const INFLOW_CA = file('ca.pem', authority.cert)
  const DATA_DIR = join(folder, 'data')
  const running = await startProcess({ DATA_DIR, TLS_CERT, TLS_KEY, MASTER_KEY: undefined })
  onTestFinished(async () => void (await running.stop()))
  const told = async (env: Record<string, string>) => {
    const { stdout } = await runHere(['doctor', '--json'], { DATA_DIR, ...env })
    const findings: Finding[] = JSON.parse(stdout).findings
    return findings
      .filter(({ area }) => area === 'Service')
      .map(({ level, found }) => [level, found])
  }
  expect(await told({ INFLOW_CA })).toEqual([
    ['ok', `gRPC at ${running.grpcUrl} serves`],
    ['ok', `HTTP at ${running.httpUrl} is ready`],
  ])
  // Nobody else's word is taken for it.
  expect(await told({})).toEqual([
    ['fail', expect.stringMatching(/^gRPC at https:\S+ does not serve: /)],
    ['fail', expect.stringMatching(/^HTTP at https:\S+ is not ready: .*certificate/)],
  ])
})

test('a data folder that others may write into fails', async () => {
  const DATA_DIR = join(temporaryFolder(), 'data')
  mkdirSync(DATA_DIR)
  chmodSync(DATA_DIR, 0o777)
  writeFileSync(join(DATA_DIR, 'master.key'), 'x', { mode: 0o640 })
  const { stdout, code } = await runHere(['doctor', '--json'], { DATA_DIR })
  expect(code).toBe(1)
  const found = (JSON.parse(stdout).findings as Finding[]).map(({ found }) => found)
  expect(found).toContain(`others may write into ${DATA_DIR}`)
  expect(found).toContain(`others may read ${join(DATA_DIR, 'master.key')}`)
})

test('a certificate that ends soon, and one that has ended, are told', async () => {
  const days = (count: number) => Date.now() + count * 86_400_000
  const withCertificate = async (toMs: number) => {
    const { cert, key } = makeCertificate({ fromMs: days(-400), toMs })
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'cert.pem'), cert)
    writeFileSync(join(folder, 'key.pem'), key)
    const env = { TLS_CERT: join(folder, 'cert.pem'), TLS_KEY: join(folder, 'key.pem') }
    return (await examine(env)).lines.filter((line) => line.includes('TLS_CERT'))
  }
  expect(await withCertificate(days(90))).toEqual([])
  expect(await withCertificate(days(7))).toEqual([
    `warn: TLS_CERT expires on ${new Date(days(7)).toISOString().slice(0, 10)}`,
  ])
  expect(await withCertificate(days(-1))).toEqual([
    `fail: TLS_CERT expired on ${new Date(days(-1)).toISOString().slice(0, 10)}`,
  ])
})

test('a live bank that answers, one that does not, and what waits for a person, are told', async () => {
  const bank = await startReceiver()
  const env = {
    BANKS: 'PROVIDUS=live',
    BANK_PROVIDUS_BASE_URL: bank.url,
    BANK_PROVIDUS_CLIENT_ID: 'client',
    BANK_PROVIDUS_CLIENT_SECRET: 'secret',
  }
  const told = async () => {
    const { findings } = await examine(env)
    return findings.filter(({ area }) => area === 'Banks').map(({ level, found }) => [level, found])
  }
  const { pool } = idle.database
  await pool.query(
    `insert into unmatched_payment (id, bank, account_number, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration)
      values ('unm_1', 'PROVIDUS', '1', 's', 1, 'SUCCESS', now(), now(), '', '', '', '', '')`,
  )
  const { host } = new URL(bank.url)
  expect(await told()).toEqual([
    ['warn', '1 payments came for no open account'],
    ['warn', 'PROVIDUS has told of no payment yet, as far as notifications are kept'],
    ['ok', `PROVIDUS answers at ${host}`],
  ])
  await bank.close()
  expect((await told()).at(-1)).toEqual([
    'fail',
    expect.stringContaining(`PROVIDUS does not answer at ${host}: `),
  ])
})
