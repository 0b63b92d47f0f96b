import type { Pool, PoolClient } from 'pg'
import { Gauge, Histogram, type Registry } from 'prom-client'

/** Buckets of waits: getting a free connection takes microseconds, opening one milliseconds; after 5 s the call fails. */
const WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/**
 * Measures connection pools: how many connections they have, and how long callers wait for a connection.
 *
 * @param pools the pools by their names in the label `pool`
 * @returns a function that ends the measuring
 */
export function observePools(metrics: Registry, pools: Readonly<Record<string, Pool>>): () => void {
  const named = Object.entries(pools)
  const gauge = (
    name: string,
    help: string,
    measure: (pool: Pool) => Readonly<Record<string, number>>,
    labelNames: readonly string[] = [],
  ) =>
    new Gauge({
      name,
      help,
      labelNames: ['pool', ...labelNames],
      registers: [metrics],
      collect() {
        for (const [pool, each] of named)
          for (const [state, value] of Object.entries(measure(each)))
            this.set({ pool, ...(labelNames.length > 0 && { state }) }, value)
      },
    })
  gauge(
    'inflow_db_pool_connections',
    'Open connections to the database, by pool and whether a statement or transaction has them.',
    ({ totalCount, idleCount }) => ({ idle: idleCount, used: totalCount - idleCount }),
    ['state'],
  )
  gauge(
    'inflow_db_pool_connections_max',
    'The most connections that a pool opens.',
    ({ options }) => ({ max: options.max }),
  )
  gauge('inflow_db_pool_waiting', 'Callers that wait for a connection of a pool.', (pool) => ({
    waiting: pool.waitingCount,
  }))
  const waits = new Histogram({
    name: 'inflow_db_pool_wait_seconds',
    help: 'How long a caller waited for a connection of a pool.',
    labelNames: ['pool'],
    buckets: WAIT_BUCKETS,
    registers: [metrics],
  })
  const ends = named.map(([name, pool]) => {
    const timer = waits.labels(name)
    return observeWaits(pool, (waitMs) => timer.observe(waitMs / 1_000))
  })
  return () => {
    for (const end of ends) end()
  }
}

type OnConnect = (
  error: Error | undefined,
  client: PoolClient | undefined,
  done: (release?: unknown) => void,
) => void

/** The type of `connect`, with and without a callback. */
type Connect = (onConnect?: OnConnect) => Promise<PoolClient> | undefined

/** Wraps the `connect` of a pool, which every query calls, because pg has no event for it. */
function observeWaits(pool: Pool, onWait: (waitMs: number) => void): () => void {
  const connect = pool.connect as Connect
  const observed: Connect = (onConnect) => {
    const startedMs = performance.now()
    const end = (): void => onWait(performance.now() - startedMs)
    if (onConnect !== undefined)
      return connect.call(pool, (error, client, done) => {
        end()
        onConnect(error, client, done)
      })
    const connecting = connect.call(pool)
    connecting?.then(end, end)
    return connecting
  }
  pool.connect = observed as Pool['connect']
  return () => {
    // Another service of this process may have wrapped `connect` again in the meantime.
    if (pool.connect === observed) pool.connect = connect as Pool['connect']
  }
}
