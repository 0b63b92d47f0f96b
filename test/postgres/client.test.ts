import pg, { type Pool } from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { createClientClass } from '../../src/postgres/client.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { isRetryable } from '../../src/postgres/is-retryable.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { useDatabase } from '../support/database.ts'
import { startProxy } from '../support/proxy.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()

function openPool(options: pg.PoolConfig): Pool {
  const Client = createClientClass()
  const pool = new pg.Pool({ connectionString: db.url, max: 1, Client, ...options })
  pool.on('error', () => undefined)
  onTestFinished(() => pool.end())
  return pool
}

/** Whatever the deadline of the pool: a busy machine takes a while to connect. */
const processOf = async (pool: Pool): Promise<number> => {
  const query = { text: 'select pg_backend_pid() as pid', query_timeout: 60_000 }
  return (await pool.query<{ pid: number }>(query)).rows[0]!.pid
}

describe('a query that misses its deadline', () => {
  test('is retryable, and its connection is not used again', async () => {
    const pool = openPool({ query_timeout: 1_000 })
    const before = await processOf(pool)
    const slow = { text: 'select pg_sleep(60)', query_timeout: 50 }
    const error = await pool.query(slow).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ message: 'Query read timeout' })
    expect(isRetryable(error)).toBe(true)
    expect(await processOf(pool)).not.toBe(before)
  })

  test('ends its transaction at once', async () => {
    const pool = openPool({ query_timeout: 60_000 })
    const before = await processOf(pool)
    const run = inTransaction(pool, (client) =>
      client.query({ text: 'select pg_sleep(60)', query_timeout: 50 }),
    )
    // A rollback that waited for the query would take as long as the query.
    await expect(run).rejects.toThrow('Query read timeout')
    expect(await processOf(pool)).not.toBe(before)
  })

  test('is retryable for the ORM too', async () => {
    const proxy = await startProxy(db.url)
    const pool = openPool({ connectionString: proxy.through, query_timeout: 100 })
    await processOf(pool)
    proxy.silence()
    const error = await pool.query('select 1').catch((reason: unknown) => reason)
    expect(isRetryable(error)).toBe(true)
    const { orm } = db.database
    const wrapped = orm.em.getDriver().convertException(error as Error)
    expect(isRetryable(wrapped)).toBe(true)
  })
})

test.each(['begin', 'rollback'])(
  'a connection that is lost at %s makes room in the pool',
  async (statement) => {
    const { orm, durablePool, close } = await openDatabase(db.url, ENTITIES, { connectionsMax: 2 })
    onTestFinished(close)
    durablePool.on('connect', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>
      const losing = async (...args: unknown[]) => {
        const lost = (args[0] as { text?: string } | undefined)?.text ?? args[0]
        if (lost === statement) {
          await query('select pg_terminate_backend(pg_backend_pid())').catch(() => undefined)
        }
        return query(...args)
      }
      client.query = losing as typeof client.query
    })
    for (let time = 1; time <= 5; time++) {
      const run = orm.em.fork().transactional(async (em) => {
        await em.execute('select 1')
        throw new Error('rolled back')
      })
      await expect(run).rejects.toThrow()
      expect(durablePool.totalCount).toBe(durablePool.idleCount)
    }
  },
)

test('a transaction that sets its statement time-out has a deadline of its own', async () => {
  const pool = openPool({ query_timeout: 10_000 })
  await inTransaction(pool, async (client) => {
    await client.query("set local statement_timeout = '10min'")
    await client.query('select pg_sleep(10.5)')
  })
  await expect(pool.query('select pg_sleep(60)')).rejects.toThrow('Query read timeout')
})

test('connections that fail are closed, and opened again one at a time with backoff', async () => {
  const proxy = await startProxy(db.url)
  const url = Object.assign(new URL(proxy.through), { password: 'wrong' }).href
  const pool = openPool({ connectionString: url, max: 10 })
  const attempts = vi.fn()
  const untilMs = performance.now() + 3_000
  while (attempts.mock.calls.length < 3 || performance.now() < untilMs) {
    const calls = Array.from({ length: 10 }, () => pool.query('select 1').catch(isRetryable))
    expect(await Promise.all(calls)).toEqual(calls.map(() => true))
    attempts()
  }
  expect(attempts.mock.calls.length).toBeGreaterThan(1)
  expect(proxy.accepted()).toBeLessThan(10 + 2 * attempts.mock.calls.length)
  await waitFor(() => expect(proxy.connections()).toBe(0))
})

test('a connection that is lost while the standby is looked at fails its caller, and not the process', async () => {
  const { durablePool } = db.database
  // The look hangs at this view until its connection is lost.
  await durablePool.query(`create schema hanging;
    create view hanging.pg_stat_activity as
      select a.* from pg_catalog.pg_stat_activity a cross join pg_sleep(60)`)
  const proxy = await startProxy(db.url)
  const options = '-c search_path=hanging,pg_catalog'
  const pool = openPool({ connectionString: proxy.through, options, query_timeout: 60_000 })
  await processOf(pool)
  const slow = { text: 'select pg_sleep(60)', query_timeout: 50 }
  await expect(pool.query(slow)).rejects.toThrow('Query read timeout')
  const lost = expect(processOf(pool)).rejects.toThrow('Connection terminated unexpectedly')
  await waitFor(async () => {
    const { rowCount } = await durablePool.query(
      `select from pg_stat_activity where datname = current_database()
        and query like '%SyncRep%' and wait_event = 'PgSleep'`,
    )
    expect(rowCount).toBe(1)
  })
  proxy.cut()
  await lost
})

test('a connection that is lost between two statements fails the next one alone', async () => {
  const { durablePool, recordingPool } = db.database
  const client = await recordingPool.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const ended = new Promise((resolve) => client.once('end', resolve))
  await durablePool.query('select pg_terminate_backend($1)', [rows[0].pid])
  await ended
  await expect(client.query('select 1')).rejects.toThrow()
  client.release(true)
  await expect(recordingPool.query('select 1')).resolves.toBeDefined()
})
