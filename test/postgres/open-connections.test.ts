import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { DEADLINES } from '../../src/postgres/client.ts'
import { type OpenConnection, OpenConnections } from '../../src/postgres/open-connections.ts'
import { useDatabase } from '../support/database.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()

/** A connection that answered last what was sent at a time. */
function openAt(
  connections: OpenConnections,
  answeredMs: number,
  { isIdle = true, backend = 0, openedMs = performance.now() } = {},
) {
  const ended: string[] = []
  const connection: OpenConnection = {
    openedMs,
    answeredMs,
    isIdle: () => isIdle,
    backend: () => backend,
    destroy: ({ message }) => ended.push(message),
  }
  connections.add(connection)
  return { connection, ended }
}

test('a missed deadline ends the idle connections that have answered nothing since', () => {
  const connections = new OpenConnections()
  const silent = openAt(connections, 99)
  const [late, idle, busy, answered] = [
    openAt(connections, 50, { isIdle: false }),
    openAt(connections, 99),
    openAt(connections, 99, { isIdle: false }),
    openAt(connections, 101),
  ]
  connections.delete(silent.connection)
  connections.missedDeadline(late.connection, 100)
  expect([silent, late, idle, busy, answered].map(({ ended }) => ended.length)).toEqual([
    0, 0, 1, 0, 0,
  ])
})

test('a missed heartbeat ends all connections that have answered nothing since, once', () => {
  const connections = new OpenConnections()
  const [idle, busy, newer] = [
    openAt(connections, 99, { openedMs: 0 }),
    openAt(connections, 99, { openedMs: 0, isIdle: false }),
    // It may lead to another server.
    openAt(connections, 100, { openedMs: 95 }),
  ]
  expect(connections.missedHeartbeat(100, 90)).toBe(2)
  expect(connections.missedHeartbeat(100, 90)).toBe(0)
  expect([idle, busy, newer].map(({ ended }) => ended.length)).toEqual([1, 1, 0])
})

test('a missed heartbeat ends no connection while the server answers on an earlier one', () => {
  const connections = new OpenConnections()
  const silent = openAt(connections, 99, { openedMs: 0 })
  openAt(connections, 100, { openedMs: 89 })
  expect(connections.missedHeartbeat(100, 90)).toBe(0)
  expect(silent.ended).toEqual([])
})

/** A connection to the server that is not closed when it is destroyed. */
async function connect(connections: OpenConnections) {
  const client = new pg.Client({ connectionString: db.url })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end())
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  const { pid } = rows[0]!
  const { connection } = openAt(connections, 0, { backend: pid })
  return { client, pid, connection }
}

async function alive(pids: readonly number[]): Promise<readonly number[]> {
  const { rows } = await db.database.durablePool.query<{ pid: number }>(
    'select pid from pg_stat_activity where pid = any($1) order by array_position($1, pid)',
    [pids],
  )
  return rows.map(({ pid }) => pid)
}

test('the same server ends what it keeps of abandoned connections, unless it is active', async () => {
  const connections = new OpenConnections()
  const { durablePool } = db.database
  await connections.endAbandoned(durablePool)
  const [idle, open, active] = [
    await connect(connections),
    await connect(connections),
    await connect(connections),
  ]
  await open.client.query('begin')
  void active.client.query('select pg_sleep(60)').catch(() => undefined)
  const states = 'select state from pg_stat_activity where pid = $1'
  await waitFor(async () => {
    expect((await durablePool.query(states, [active.pid])).rows).toEqual([{ state: 'active' }])
  })
  const pids = [idle.pid, open.pid, active.pid]
  expect(connections.missedHeartbeat(1, 0)).toBe(3)
  await connections.endAbandoned(durablePool)
  await waitFor(async () => expect(await alive(pids)).toEqual([active.pid]))
  await durablePool.query('select pg_terminate_backend($1)', [active.pid])
})

test('another server, and a process that began later under the same number, are left alone', async () => {
  const { durablePool } = db.database
  const other = new OpenConnections()
  const abandoned = await connect(other)
  other.missedHeartbeat(1, 0)
  // It has not been connected to this server before.
  await other.endAbandoned(durablePool)
  await abandoned.client.query('select 1')

  const connections = new OpenConnections()
  await connections.endAbandoned(durablePool)
  // The numbers that the system gives next, of connections that were open at least a deadline before.
  const openedMs = performance.now() - DEADLINES.hot
  const { rows } = await durablePool.query<{ pid: number }>('select pid from pg_stat_activity')
  const taken = new Set(rows.map(({ pid }) => pid))
  for (let backend = abandoned.pid + 1; backend <= abandoned.pid + 5_000; backend++) {
    if (!taken.has(backend)) openAt(connections, 0, { backend, openedMs })
  }
  connections.missedHeartbeat(1, 0)
  const later = await connect(connections)
  await connections.endAbandoned(durablePool)
  await later.client.query('select 1')
})
