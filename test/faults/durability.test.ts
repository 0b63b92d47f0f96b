import { expect, onTestFinished, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { readServerRisks } from '../../src/postgres/server-risks.ts'
import { runHere } from '../cli/run-inflow.ts'
import { query } from '../support/database.ts'
import { startProcess } from '../support/process.ts'
import { MASTER_KEY } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { logOf } from '../support/workers.ts'
import { startPair } from './standby.ts'

const NONE = 'standbys are connected (1) and none is synchronous'

test('start and doctor state that no standby is synchronous, and which commits are weak', async () => {
  const { primary, standby } = await startPair()
  const risksOf = async (url: string, transactionPooling = false) => {
    const database = await openDatabase(url, ENTITIES, { connectionsMax: 1, transactionPooling })
    try {
      return (await readServerRisks(database.durablePool)).map(({ found }) => found)
    } finally {
      await database.close()
    }
  }
  await waitFor(async () => {
    expect(await risksOf(primary.url)).toEqual([expect.stringContaining(NONE)])
  })
  const env = { DATABASE_URL: primary.url, MASTER_KEY: MASTER_KEY.toString('base64') }
  const service = await startProcess({ ...env, LOG_LEVEL: 'warn' }, true)
  onTestFinished(service.kill)
  await waitFor(() => {
    const found = logOf(service).map((line) => line['found'])
    expect(found).toContainEqual(expect.stringContaining(NONE))
  })
  const { stdout } = await runHere(['doctor'], env)
  expect(stdout).toContain(NONE)
  expect(await service.stop()).toBe(0)

  // A role without pg_monitor sees that a standby is connected, but not whether it is synchronous.
  await query(primary.url, "create role plain login password 'plain'")
  const plain = new URL(primary.url)
  plain.username = 'plain'
  plain.password = 'plain'
  expect(await risksOf(plain.href)).toEqual([expect.stringContaining(NONE)])

  const set = (text: string) => query(primary.url, text, 'select pg_reload_conf()')
  await set("alter system set synchronous_standby_names = '*'")
  await waitFor(async () => expect(await risksOf(primary.url)).toEqual([]))
  const hidden = ['the role may not see whether a standby is synchronous']
  expect(await risksOf(plain.href)).toEqual(hidden)
  await query(primary.url, 'revoke select on pg_stat_replication from public')
  expect(await risksOf(plain.href)).toEqual(hidden)

  // Sessions set their own level. A pooler gives them that of the role.
  for (const weak of ['off', 'local', 'remote_write']) {
    await query(primary.url, `alter role inflow set synchronous_commit = ${weak}`)
    expect(await risksOf(primary.url)).toEqual([])
    const stated = expect.stringMatching(`^synchronous_commit is ${weak}: `)
    expect(await risksOf(primary.url, true)).toContainEqual(stated)
  }
  await query(primary.url, 'alter role inflow set synchronous_commit = remote_apply')
  const none = expect.stringContaining('synchronous_commit is')
  expect(await risksOf(primary.url, true)).not.toContainEqual(none)
  // Commits would wait for it.
  await set("alter system set synchronous_standby_names = ''")
  await standby.stop()
})
