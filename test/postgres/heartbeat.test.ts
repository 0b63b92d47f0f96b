import type pg from 'pg'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { createHeartbeat } from '../../src/postgres/heartbeat.ts'
import { isRetryable } from '../../src/postgres/is-retryable.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { type Direction, startProxy } from '../client/proxy.ts'
import { useDatabase } from '../support/database.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()

/** Opens a database behind a proxy, with a heartbeat. */
async function openBehindProxy(onConnect?: (client: pg.Client) => Promise<void>) {
  const proxy = await startProxy(new URL(db.url).host)
  const url = Object.assign(new URL(db.url), { host: proxy.address }).href
  const database = await openDatabase(url, ENTITIES)
  onTestFinished(database.close)
  const lines: { msg: string; ended?: number; failures?: number }[] = []
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const { connections } = database
  const connected = Promise.withResolvers<void>()
  const heartbeat = createHeartbeat({
    ...{ name: 'heartbeat', url, log, connections },
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

/** In each pool one idle connection, one in a transaction, and one with a query that takes a minute. */
async function occupy({
  durablePool,
  relaxedPool,
  recordingPool,
}: Awaited<ReturnType<typeof openDatabase>>) {
  const pids: number[] = []
  const waiting: Promise<unknown>[] = []
  for (const each of [durablePool, relaxedPool, recordingPool]) {
    const clients = await Promise.all([each.connect(), each.connect(), each.connect()])
    const [inTransaction, busy, idle] = clients as [pg.PoolClient, pg.PoolClient, pg.PoolClient]
    for (const client of clients) {
      client.on('error', () => undefined)
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
      pids.push(rows[0]!.pid)
    }
    await inTransaction.query('begin')
    await busy.query('begin; set local statement_timeout = 0')
    const minute = busy.query({ text: 'select pg_sleep(60)', query_timeout: 3_600_000 })
    waiting.push(
      minute.then(
        () => 'an answer',
        (error: unknown) => error,
      ),
    )
    idle.release()
    onTestFinished(() => {
      inTransaction.release()
      busy.release()
    })
  }
  return { pids, waiting }
}

test('a server that is silent in either direction loses all connections of all pools, and what it keeps of them', async () => {
  const expectLoss = async (direction: Direction) => {
    const { proxy, database, lines } = await openBehindProxy()
    const { pids, waiting } = await occupy(database)
    proxy.silence(direction)
    proxy.endSilence()
    for (const error of await Promise.all(waiting)) expect(isRetryable(error)).toBe(true)
    await waitFor(() => expect(proxy.lost()).toBe(0))
    expect(lines).toContainEqual(expect.objectContaining({ ended: 9 }))
    const { durablePool, relaxedPool, recordingPool } = database
    for (const each of [durablePool, relaxedPool, recordingPool]) await each.query('select 1')
    // Those that sleep are active, and end by themselves.
    const left = `select from pg_stat_activity where pid = any($1) and state <> 'active'`
    await waitFor(async () => {
      expect((await db.database.durablePool.query(left, [pids])).rowCount).toBe(0)
    })
  }
  // Each takes a deadline.
  await Promise.all([expectLoss('to the server'), expectLoss('from the server')])
})

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
