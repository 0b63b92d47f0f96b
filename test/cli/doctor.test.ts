import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { newId } from '../../src/core/ids.ts'
import { checkBanks, checkBankWork } from '../../src/doctor/check-banks.ts'
import { checkReplicas } from '../../src/doctor/check-database.ts'
import { checkPayouts } from '../../src/doctor/check-payouts.ts'
import { checkAdministrators, checkFolder, checkSettings } from '../../src/doctor/check-settings.ts'
import type { Finding } from '../../src/doctor/finding.ts'
import { makeCertificate, writeCertificate } from '../support/certificate.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { writeEvents } from '../support/events.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { startProcess } from '../support/process.ts'
import { startReceiver } from '../support/receiver.ts'
import { MASTER_KEY, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { runHere } from './run-inflow.ts'

const service = useService()
/** A database that no service uses. */
const idle = useDatabase(2)

/** Runs the checks, by default of the idle database. @returns the findings that are not ok */
async function runDoctor(env: Readonly<Record<string, string>>, ...args: string[]) {
  const settings = {
    DATABASE_URL: idle.url,
    MASTER_KEY: MASTER_KEY.toString('base64'),
    DATA_DIR: temporaryFolder(),
    ...env,
  }
  const { code, stdout, stderr } = await runHere(['doctor', '--json', ...args], settings)
  const findings: Finding[] = JSON.parse(stdout).findings
  const problems = findings.filter(({ level }) => level !== 'ok')
  return { code, stderr, findings, lines: problems.map((each) => `${each.level}: ${each.found}`) }
}

test('checks a service in embedded mode, while it runs and after it stopped', async () => {
  const folder = temporaryFolder()
  const running = await startProcess({ DATA_DIR: folder, MASTER_KEY: undefined })
  const well = await waitFor(async () => {
    const outcome = await runHere(['doctor'], { DATA_DIR: folder })
    expect([outcome.code, outcome.stderr]).toEqual([0, 'All checks passed.\n'])
    return outcome
  })
  expect(well.stdout).not.toMatch(/warn|fail/)
  for (const line of [
    /^Settings\n {2}✓ ok {4}all settings are valid/m,
    /✓ ok {4}PostgreSQL 18\S+ at 127\.0\.0\.1:\d+ is reachable; its time zone is UTC/,
    /✓ ok {4}commits are durable/,
    /✓ ok {4}the schema is up to date/,
    /✓ ok {4}the master key [0-9a-f]{8} matches the database/,
    /✓ ok {4}gRPC at http:\S+ is healthy/,
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
    /✗ fail {2}other users can read \S+credentials.json\n +→ chmod 600 \S+credentials.json\n/,
  )
  expect(stopped.stdout).toMatch(/✗ fail {2}gRPC at http:\S+ is not healthy: /)
  expect(stopped.stderr).toMatch(/error: 3 checks failed\n$/)
})

test('before the first start no check fails', async () => {
  const DATA_DIR = join(temporaryFolder(), 'none')
  const { code, stdout, stderr } = await runHere(['doctor'], { DATA_DIR })
  expect([code, stderr]).toEqual([0, 'No check failed; 2 warnings.\n'])
  expect(stdout).toMatch(/! warn {2}there is no database in .* yet/)
  expect(stdout).toMatch(/! warn {2}no running service was found\n +→ start one: npm start/)
})

/** What the check of the settings alone finds. */
const foundIn = (env: NodeJS.ProcessEnv) =>
  checkSettings(env).findings.map(({ level, found }) => `${level}: ${found}`)

test('reports invalid and weak settings, without printing their values', () => {
  const wrong = foundIn({ HTTP_PORT: 'x', MASTER_KEY: 'hidden' })
  expect(wrong).toContain('fail: HTTP_PORT must be a port, 0 to 65535')
  const weak = foundIn({
    DATABASE_URL: 'postgres://h/d',
    MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
    HOST: '0.0.0.0',
    ADMIN_TOKEN: 'hidden'.repeat(6),
    LOG_LEVEL: 'trace',
    WORKERS: '64',
    WEBHOOK_ALLOWED_CIDRS: '0.0.0.0/0',
    ALLOW_SIMULATED_LIVE_ACCOUNTS: 'on',
    HTP_PORT: '1',
  })
  for (const line of [
    /^warn: HOST 0\.0\.0\.0 exposes the servers/,
    /^warn: GRPC_REFLECTION shows the API/,
    /^warn: metrics, with how many payments arrive, are served to every caller/,
    /^warn: ADMIN_TOKEN is not random/,
    /^fail: MASTER_KEY is not random/,
    /^warn: LOG_LEVEL trace costs/,
    /^warn: WEBHOOK_ALLOWED_CIDRS 0\.0\.0\.0\/0 lets/,
    /^warn: ALLOW_SIMULATED_LIVE_ACCOUNTS is on: the sandbox opens live accounts at 9PSB, SAFEHAVEN/,
    /^warn: simulated banks: 9PSB, SAFEHAVEN, PROVIDUS, PALMPAY; they receive no real money/,
    /^warn: WORKERS 64 is more than the \d+ cores of this machine/,
    /^warn: HTP_PORT is not a setting$/,
  ]) {
    expect(weak).toContainEqual(expect.stringMatching(line))
  }
  expect([...wrong, ...weak].join()).not.toContain('hidden')
})

test('fails for a database that may lose commits or has too few connections, and for an unreachable one', async () => {
  // The server of the tests has fsync off.
  const { code, lines } = await runDoctor({ WORKERS: '64' })
  expect(code).toBe(1)
  for (const line of [
    /^fail: fsync is off: a power failure may lose/,
    /^fail: \d+ of \d+ connections are in use; an instance with 64 workers/,
    /^warn: the server does not archive its log \(archive_mode is off\)/,
  ]) {
    expect(lines).toContainEqual(expect.stringMatching(line))
  }
  const unreachable = await runDoctor({ DATABASE_URL: 'postgres://inflow:hidden@127.0.0.1:1/x' })
  expect(unreachable.lines).toContainEqual(
    expect.stringMatching(/^fail: cannot reach the database at 127\.0\.0\.1:1/),
  )
  expect(JSON.stringify(unreachable)).not.toContain('hidden')
})

test('behind a pooler it names the settings that the service’s sessions lack', async () => {
  const name = new URL(idle.url).pathname.slice(1)
  await idle.database.durablePool.query(
    `alter database ${name} set default_transaction_isolation = 'serializable'`,
  )
  onTestFinished(async () => {
    await idle.database.durablePool.query(
      `alter database ${name} reset default_transaction_isolation`,
    )
  })
  const DATABASE_POOLING = 'transaction'
  const { findings, code } = await runDoctor({ DATABASE_POOLING })
  expect(code).toBe(1)
  const finding = findings.find(({ found }) => found.includes('drops the settings'))
  expect(finding?.level).toBe('fail')
  expect(finding?.found).toContain('default_transaction_isolation is serializable')
  expect(finding?.advice).toContain(
    `in database ${name} set default_transaction_isolation = 'read committed'`,
  )
})

test('measures a commit, a recording and a tick, and changes nothing', async () => {
  const count = async () => {
    const { rows } = await service.database.durablePool.query(
      `select (select count(*) from transaction) as transactions, (select count(*) from outbox) as events,
        (select position from sequencer) as position, (select count(*) from business) as businesses`,
    )
    return rows
  }
  const before = await count()
  const { findings } = await runDoctor({ DATABASE_URL: service.url }, '--measure')
  for (const found of [
    /^a commit takes \d+\.\d ms$/,
    /^recording 64 payments takes \d+\.\d ms$/,
    /^a tick of the sequencer with 64 events takes \d+\.\d ms$/,
    /^the shares of the statements are unknown: the database has no pg_stat_statements$/,
  ]) {
    expect(findings).toContainEqual(
      expect.objectContaining({ found: expect.stringMatching(found) }),
    )
  }
  expect(await count()).toEqual(before)
})

test('warns of a database on another machine whose connection is not encrypted and verified', () => {
  const MASTER_KEY = randomBytes(32).toString('base64')
  const findings = (DATABASE_URL: string) => foundIn({ DATABASE_URL, MASTER_KEY })
  const warning = /^warn: the connection to the database is not encrypted, or.*: db\.example:5432$/m
  const url = 'postgres://inflow:hidden@db.example:5432/inflow'
  for (const weak of ['', '?sslmode=no-verify', '?sslmode=require&uselibpqcompat=true']) {
    expect(findings(`${url}${weak}`).join('\n')).toMatch(warning)
  }
  for (const good of [`${url}?sslmode=verify-full`, url.replace('db.example', '127.0.0.1')]) {
    expect(findings(good).join()).not.toContain('not encrypted')
  }
})

test('warns of replicas that cannot be read, and of those that are none', async () => {
  const urls = [service.url, 'postgres://inflow:hidden@127.0.0.1:1/x']
  const [primary, closed] = await checkReplicas(idle.database.durablePool, urls)
  const { host, pathname } = new URL(service.url)
  expect(primary?.found).toBe(
    `the replica ${host}${pathname} is not used, because it is not a standby: reads go to the primary`,
  )
  expect(closed?.found).toMatch(/^the replica 127\.0\.0\.1:1\/x cannot be read \(.*ECONNREFUSED/)
})

test('fails for a master key that is not the database’s, and warns of an unneeded one', async () => {
  const other = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 7)).toString('base64')
  const wrong = await runDoctor({ DATABASE_URL: service.url, MASTER_KEY: other })
  expect(wrong.lines).toContain(
    'fail: MASTER_KEY is not the one that this database was encrypted with',
  )
  const unneeded = await runDoctor({ DATABASE_URL: service.url, MASTER_KEY_PREVIOUS: other })
  expect(unneeded.lines).toContainEqual(
    expect.stringMatching(/^warn: the earlier key [0-9a-f]{8} is no longer needed/),
  )
})

test('reports pending migrations, and events and webhooks that wait', async () => {
  const { durablePool } = idle.database
  const before = await runDoctor({})
  expect(before.findings.filter(({ area, level }) => area === 'Events' && level !== 'ok')).toEqual(
    [],
  )

  await durablePool.query("delete from schema_migration where name like '%initial'")
  await writeEvents(durablePool, 3)
  await tamper(durablePool, "update outbox set occurred_at = now() - interval '2 hours'")
  await durablePool.query("insert into business values ('biz_1', 'x', 'x', now())")
  await durablePool.query(
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency,
        after_position, created_at)
      values ('ep_1', 'biz_1', true, 'https://x.example', '{}', '', 1, 0, now())`,
  )
  await durablePool.query(
    `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
        created_at)
      values ('dlv_1', 'ep_1', 1, 'PENDING', 0, now() - interval '5 minutes', 0, now())`,
  )
  const { lines } = await runDoctor({})
  expect(lines).toContainEqual(
    expect.stringMatching(/^warn: migrations are pending: Migration\d+_initial$/),
  )
  expect(lines).toContain('fail: 3 events wait for a position in the log, the oldest for 2 hours')
  expect(lines).toContain('warn: 1 webhooks are due, the oldest for 5 minutes')
})

test('checks a remote service at its gRPC server', async () => {
  const healthy = `gRPC at ${service.grpcUrl} is healthy`
  await waitFor(async () => {
    const { findings } = await runDoctor({ INFLOW_GRPC_URL: service.grpcUrl })
    expect(findings.filter(({ area }) => area === 'Service')).toEqual([
      { area: 'Service', level: 'ok', found: healthy, advice: '' },
    ])
  })
})

test('fails for a data folder that other users can write to', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  mkdirSync(dataDir)
  chmodSync(dataDir, 0o777)
  writeFileSync(join(dataDir, 'master.key'), 'x', { mode: 0o640 })
  expect(await checkFolder(dataDir)).toMatchObject([
    { level: 'fail', found: `other users can write to ${dataDir}` },
    { level: 'fail', found: `other users can read ${join(dataDir, 'master.key')}` },
    {},
  ])
})

test('reports a certificate that expires soon or has expired', () => {
  const days = (count: number) => Date.now() + count * 86_400_000
  const date = (count: number) => new Date(days(count)).toISOString().slice(0, 10)
  const withCertificate = (count: number) => {
    const files = writeCertificate(
      temporaryFolder(),
      makeCertificate({ fromMs: days(-400), toMs: days(count) }),
    )
    return foundIn(files).filter((line) => line.includes('TLS_CERT'))
  }
  expect(withCertificate(90)).toEqual([`ok: TLS_CERT is valid until ${date(90)}`])
  expect(withCertificate(7)).toEqual([`warn: TLS_CERT expires on ${date(7)}`])
  expect(withCertificate(-1)).toEqual([`fail: TLS_CERT expired on ${date(-1)}`])
})

test('reports whether a live bank responds, and what waits for manual review', async () => {
  const bank = await startReceiver()
  const { liveBanks } = readConfig({
    BANKS: 'PROVIDUS=live',
    BANK_PROVIDUS_BASE_URL: bank.url,
    BANK_PROVIDUS_CLIENT_ID: 'client',
    BANK_PROVIDUS_CLIENT_SECRET: 'secret',
  })
  const { durablePool, orm } = idle.database
  const reported = async () => {
    const work = await checkBankWork(orm, liveBanks, Date.now())
    const findings = [...work, ...(await checkBanks(liveBanks))]
    return findings.map(({ level, found }) => [level, found])
  }
  await durablePool.query(
    `insert into unmatched_payment (id, bank, account_number, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration)
      values ('unm_1', 'PROVIDUS', '1', 's', 1, 'SUCCESS', now(), now(), '', '', '', '', '')`,
  )
  const { host } = new URL(bank.url)
  expect(await reported()).toEqual([
    ['warn', '1 payments match no open account'],
    ['warn', 'PROVIDUS has sent no notification within the retention of notifications'],
    ['ok', `PROVIDUS responds at ${host}`],
  ])
  const notifiedAt = new Date(Date.now() - 60_000)
  await durablePool.query(
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state,
        outcome, cause, tries)
      values ('ntf_1', 'PROVIDUS', '', $1, '', 'k', 'PROCESSED', 'RECORDED', '', 1)`,
    [notifiedAt],
  )
  const notified = `PROVIDUS sent its latest notification at ${notifiedAt.toISOString()}`
  expect(await reported()).toContainEqual(['ok', notified])
  await durablePool.query(
    `update bank_notification set state = 'PENDING', next_try_at = now() - interval '1 hour'`,
  )
  const overdue = '1 notifications are due and are not processed'
  expect(await reported()).toContainEqual(['warn', overdue])
  await bank.close()
  expect((await reported()).at(-1)).toEqual([
    'fail',
    expect.stringContaining(`PROVIDUS does not respond at ${host}: `),
  ])
})

test('reports what banks have for payouts, and which payouts wait for an operator', async () => {
  const { durablePool } = idle.database
  const connector = { pays: true }
  const liveBanks = { PROVIDUS: { connector }, SAFEHAVEN: { connector } } as never
  const nowMs = Date.now()
  const reported = async () =>
    (await checkPayouts(durablePool, liveBanks, nowMs)).map(({ level, found }) => [level, found])
  expect(await reported()).toEqual([['ok', 'no payout waits for an operator']])
  await durablePool.query(
    `with business as (
        insert into business (id, name, alias, created_at) values ('biz_paying', 'Acme', 'Acme', now()) returning id
      )
      insert into account (id, business_id, live, reference, merchant_reference, bank, account_number, account_name,
        first_name, last_name, email, phone, status, connector, details_hash, attempts, claimed_until, created_at)
      select 'va_' || connector || live, id, live, connector || live, connector || live, '9PSB', connector, 'A', 'A', 'A',
        'a', '0', 'ACTIVE', connector, '', 1, now(), now()
      from business, (values (true, 'sandbox'), (false, 'sandbox'), (true, 'live')) opened (live, connector)`,
  )
  await durablePool.query(
    `insert into bank_float (bank, live, available_minor, read_at, error, next_at)
      values ('PROVIDUS', true, 150050, now(), '', now()), ('SAFEHAVEN', true, null, null, 'status 500', now())`,
  )
  await durablePool.query(
    `insert into payout_pause (scope, target, reason, paused_by, paused_at) values ('GLOBAL', '', 'drill', '', now())`,
  )
  await durablePool.query(
    `insert into payout_discrepancy (id, kind, bank, live, line_key, bank_reference, session_id, amount_minor,
        account_number, text, found_at)
      values ('pdc_1', 'MISSING_HERE', 'PROVIDUS', true, 'r', 'r', '', 1, '', '', now())`,
  )
  // One that was refused now, and one that was two weeks ago.
  await durablePool.query(
    `insert into settlement_payout (settlement_id, business_id, live, net_minor, refusals, detail)
      select id, 'biz_1', true, 1, 1, 'a limit' from unnest($1::text[]) id`,
    [[newId('stl', nowMs), newId('stl', nowMs - 14 * DAY_MS)]],
  )
  expect(await reported()).toEqual([
    ['warn', '1 differences between bank transfers and payouts wait for an operator'],
    ['warn', '1 settlements of the last week cannot be paid out'],
    ['warn', expect.stringMatching(/^1 live accounts were opened by the sandbox: /)],
    ['warn', '1 pauses stop payouts'],
    ['ok', expect.stringMatching(/^PROVIDUS had NGN 1500\.50 for payouts at /)],
    ['warn', 'the balance for payouts at SAFEHAVEN was never read: status 500'],
  ])
  await durablePool.query("update bank_float set read_at = now() - interval '10 minutes'")
  expect(await reported()).toContainEqual([
    'warn',
    expect.stringMatching(/^the balance for payouts at PROVIDUS was last read at /),
  ])
})

test('finds the service of its own settings, over TLS with its own certificate', async () => {
  const files = writeCertificate(
    temporaryFolder(),
    makeCertificate({ hosts: ['pay.example'], addresses: [] }),
  )
  const [http, grpc, ops] = [await freePort(), await freePort(), await freePort()]
  const settings = {
    DATABASE_URL: service.url,
    ...files,
    HTTP_PORT: `${http}`,
    GRPC_PORT: `${grpc}`,
    OPS_PORT: `${ops}`,
  }
  const reported = async () => {
    const { findings } = await runDoctor(settings)
    return findings
      .filter(({ area }) => area === 'Service')
      .map(({ level, found }) => [level, found])
  }
  expect(await reported()).toEqual([['warn', 'no running service was found']])
  const running = await startProcess({ ...settings, HOST: '0.0.0.0' })
  onTestFinished(async () => void (await running.stop()))
  await waitFor(async () =>
    expect(await reported()).toEqual([
      ['ok', `gRPC at https://127.0.0.1:${grpc} is healthy`],
      ['ok', `HTTP at https://127.0.0.1:${http} is ready`],
    ]),
  )
})

test('warns that no caller can administer the service', async () => {
  const given = { DATABASE_URL: idle.url, MASTER_KEY: MASTER_KEY.toString('base64') }
  const warned = async (env = {}) => {
    const config = readConfig({ ...given, ...env })
    const [finding] = await checkAdministrators(idle.database.durablePool, config)
    return finding?.found.startsWith('no caller can administer this service: ADMIN_TOKEN is not')
  }
  const clear = () => idle.database.durablePool.query('delete from internal_token')
  const add = (scopes: string, more = 'null, null, null') =>
    idle.database.durablePool.query(
      `insert into internal_token (id, name, description, prefix, secret_hash, scopes, created_at,
          revoked_at, expires_at, business_ids)
        values ('tok_1', 'x', '', 'x', '', '{${scopes}}', now(), ${more})`,
    )
  expect(await warned()).toBe(true)
  expect(await warned({ ADMIN_TOKEN: 'x'.repeat(32) })).toBe(false)
  const useless = [
    ['read', undefined],
    ['admin', 'now(), null, null'],
    ['admin', "null, now() - interval '1 s', null"],
    ['admin', "null, null, '{biz_1}'"],
  ] as const
  for (const [scopes, more] of useless) {
    await add(scopes, more)
    expect(await warned(), `${scopes}, ${more}`).toBe(true)
    await clear()
  }
  await add('admin')
  expect(await warned()).toBe(false)
  await clear()
  const oidc = {
    OIDC_ISSUER: 'https://id.example',
    OIDC_CLIENT_ID: 'x',
    PUBLIC_URL: 'https://x.example',
  }
  expect(await warned(oidc)).toBe(false)
  expect(await warned({ ...oidc, OIDC_ROLES: 'finance=read' })).toBe(true)
  expect(await warned({ ...oidc, OIDC_ROLES: 'ops=admin' })).toBe(false)
})
