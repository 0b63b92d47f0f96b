import { join } from 'node:path'
import type { EntitySchema } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import { defineConfig, MikroORM } from '@mikro-orm/postgresql'
import pg, { type Pool } from 'pg'
/** The connections to the database. */
export interface Database {
  /** postgres://… */
  readonly url: string
  readonly orm: MikroORM
  /** The main pool, which the ORM uses too. */
  readonly pool: Pool
  /**
   * A small pool whose commits do not wait for the disk: a crash of the server may lose the last
   * of them, whole and in order. For bookkeeping that can be repeated.
   */
  readonly relaxedPool: Pool
  close(): Promise<void>
}

/** An unavailable server is detected within seconds, and no statement runs for ever. */
const CONNECTION = {
  application_name: 'inflow',
  connectionTimeoutMillis: 5_000,
  statement_timeout: 30_000,
  idle_in_transaction_session_timeout: 60_000,
  keepAlive: true,
}

/** The maximum number of connections in the pools of one process. */
interface PoolSizes {
  readonly connectionsMax: number
  readonly relaxedMax: number
}

/**
 * The pools of each worker: together as large as those of one process, but large enough that slow
 * statements do not block all others.
 */
export function poolSizes(workers: number): PoolSizes {
  return {
    connectionsMax: Math.max(6, Math.ceil(16 / workers)),
    relaxedMax: Math.max(2, Math.ceil(6 / workers)),
  }
}

/** The connections of a service with this many workers, including their listeners. */
export function connectionsOfService(workers: number): number {
  const { connectionsMax, relaxedMax } = poolSizes(workers)
  return workers * (connectionsMax + relaxedMax + 1)
}

/** What the ORM maps to tables: the results of `defineEntity`. */
export type Entities = readonly EntitySchema[]

/** The configuration of the ORM for one database. */
export function ormConfig(url: string, entities: Entities, connectionsMax: number) {
  return defineConfig({
    clientUrl: url,
    entities: [...entities],
    // A mistyped name must not become a new database.
    ensureDatabase: false,
    extensions: [Migrator],
    pool: { max: connectionsMax },
    forceUtcTimezone: true,
    driverOptions: CONNECTION,
    migrations: {
      path: join(import.meta.dirname, 'migrations'),
      emit: 'ts',
      snapshot: true,
      snapshotName: 'snapshot',
      // The snapshot belongs to the migrations, not to the state of some database.
      snapshotOnMigrate: false,
      tableName: 'schema_migration',
    },
    // Entities are read in small transactions of their own; nothing is shared between calls.
    allowGlobalContext: false,
    // Errors reject their call, and are logged there.
    logger: () => undefined,
  })
}

/**
 * Opens the pool. It connects at the first statement.
 *
 * @param url postgres://…
 */
export async function openDatabase(
  url: string,
  entities: Entities,
  connectionsMax = poolSizes(1).connectionsMax,
  relaxedMax = poolSizes(1).relaxedMax,
): Promise<Database> {
  const orm = await MikroORM.init(ormConfig(url, entities, connectionsMax))
  const pool = (await orm.em.getConnection().getNativeClient()) as Pool
  const relaxedPool = openRelaxedPool(url, relaxedMax)
  const close = async (): Promise<void> => {
    await Promise.all([relaxedPool.end(), orm.close()])
  }
  return { url, orm, pool, relaxedPool, close }
}

function openRelaxedPool(url: string, max: number): Pool {
  const relaxedPool = new pg.Pool({
    ...CONNECTION,
    connectionString: url,
    max,
    options: '-c synchronous_commit=off',
  })
  // A connection that dies while idle is replaced; a query in progress rejects by itself.
  relaxedPool.on('error', () => undefined)
  return relaxedPool
}
