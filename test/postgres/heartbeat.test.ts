import type pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { createHeartbeat } from '../../src/postgres/heartbeat.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { startProxy } from '../support/proxy.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()

/** Opens a database behind a proxy, with a heartbeat. */
async function openBehindProxy(onConnect?: (client: pg.Client) => Promise<void>) {
  const proxy = await startProxy(db.url)
  const url = proxy.through
  const database = await openDatabase(url, ENTITIES)
  onTestFinished(database.close)
  const { log, lines } = captureLog()
  const { connections } = database
  const connected = Promise.withResolvers<void>()
  const heartbeat = createHeartbeat({
    name: 'heartbeat',
    url,
    log,
    connections,
    async onConnect(client) {
      await onConnect?.(client)
      connected.resolve()
    },
  })
  onTestFinished(heartbeat.stop)
  heartbeat.start()
  await connected.promise
  // On a busy machine the first attempt may take too long.
  lines.length = 0
  return { proxy, database, lines }
}

test('a process that stands still for longer than a deadline ends no connection', async () => {
  const stood = Promise.withResolvers<void>()
  const { database, lines } = await openBehindProxy(async (client) => {
    const query = client.query.bind(client) as (text: string) => Promise<unknown>
    const standing = (text: string) => {
      const answer = query(text)
      // The heartbeat is on its way.
      setImmediate(() => {
        client.query = query as typeof client.query
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 6_000)
        answer.then(() => stood.resolve(), stood.reject)
      })
      return answer
    }
    client.query = standing as typeof client.query
  })
  const processOf = async () =>
    (await database.recordingPool.query('select pg_backend_pid() as pid')).rows
  const before = await processOf()
  await stood.promise
  expect(await processOf()).toEqual(before)
  expect(lines).toEqual([])
})

test('a heartbeat that loses its connection opens another, and ends no other', async () => {
  const { proxy, database, lines } = await openBehindProxy()
  const client = await database.durablePool.connect()
  await db.database.durablePool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'inflow heartbeat' and datname = current_database()`,
  )
  await waitFor(() => expect(lines.at(-1)).toMatchObject({ msg: 'loop recovered' }))
  expect(proxy.accepted()).toBeGreaterThan(2)
  await client.query('select 1')
  client.release()
})
