import { Client } from 'pg'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { checkUpgrade } from '../../src/doctor/check-upgrade.ts'
import { INITIAL } from '../../src/postgres/migrations/migrations.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { NEXT, openNext } from '../postgres/next-release.ts'
import { useDatabase } from '../support/database.ts'
import { waitFor } from '../support/wait-for.ts'

const BETWEEN = 'Migration20991230000000_between'

const db = useDatabase(4)

beforeEach(() => db.database.durablePool.query('delete from master_key_holder'))

/** The database as a version with one more migration sees it. */
const nextVersion = (worksSince: string) => openNext(db.url, db.database, worksSince)

async function runs(process: string, version: string, migration: string): Promise<void> {
  await db.database.durablePool.query(
    `insert into master_key_holder (id, current_key_id, known_key_ids, version, migration, process,
        started_at, seen_at)
      values ($1, '00000000', '{}', $2, $3, $1, now(), now())`,
    [process, version, migration],
  )
}

async function findingsOf(database: Database): Promise<string[]> {
  const findings = await checkUpgrade(database, '2.0.0')
  return findings.map(({ level, found }) => `${level}: ${found}`)
}

test('without pending migrations, instances may start; what runs is listed by version', async () => {
  await runs('pay-1/10', '1.0.0', INITIAL)
  await runs('pay-2/20', '1.0.0', INITIAL)
  await runs('pay-3/30', '2.0.0', INITIAL)
  expect((await findingsOf(db.database)).sort()).toEqual([
    'ok: instances of version 2.0.0 may start: no migration is pending',
    'ok: version 1.0.0 runs in 2 processes (pay-1/10, pay-2/20)',
    'ok: version 2.0.0 runs in 1 process (pay-3/30)',
  ])
})

test('an expand migration may go ahead while older instances run', async () => {
  await runs('pay-1/10', '1.0.0', INITIAL)
  expect(await findingsOf(await nextVersion(INITIAL))).toEqual([
    'ok: version 1.0.0 runs in 1 process (pay-1/10)',
    `ok: ${NEXT} is pending (expand): all running instances can work with it`,
    'ok: no long transaction would block a migration',
    'ok: the upgrade to version 2.0.0 may go ahead: start one instance of it',
  ])
})

test('a contract migration waits until the instances that it ends are gone', async () => {
  const next = await nextVersion(BETWEEN)
  await runs('pay-1/10', '1.0.0', INITIAL)
  await runs('pay-2/20', '1.5.0', BETWEEN)
  expect((await findingsOf(next)).filter((line) => line.startsWith('fail'))).toEqual([
    `fail: ${NEXT} is pending (contract): 1 process (pay-1/10) cannot work with it`,
    'fail: the upgrade to version 2.0.0 must wait',
  ])
  await db.database.durablePool.query("delete from master_key_holder where id = 'pay-1/10'")
  expect(await findingsOf(next)).toContain(
    'ok: the upgrade to version 2.0.0 may go ahead: start one instance of it',
  )
})

test('a transaction that holds locks is named, and makes the upgrade wait after a minute', async () => {
  const next = await nextVersion(INITIAL)
  const client = new Client({ connectionString: db.url, application_name: 'report' })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('begin')
  await client.query('select from business')
  // Longer than the five seconds after which it counts.
  await waitFor(async () => {
    expect(await findingsOf(next)).toContainEqual(
      expect.stringMatching(
        /^warn: a transaction of \w+, report \(pid \d+\) has held locks for \d+ s/,
      ),
    )
  })
  await client.query('rollback')
  expect(await findingsOf(next)).toContain('ok: no long transaction would block a migration')
})
