import { join } from 'node:path'
import type { EntitySchema } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import { defineConfig, MikroORM } from '@mikro-orm/postgresql'
import pg, { type Pool } from 'pg'
import { createClientClass, DEADLINES } from './client.ts'
import { MIGRATIONS } from './migrations/migrations.ts'
import { OpenConnections } from './open-connections.ts'
import type { Read } from './replicas.ts'
import { REPLICA_TIMEOUT_MS } from './server-state.ts'
import { sessionOptions } from './session.ts'

/** The connections to the database. */
export interface Database {
  /** postgres://… */
  readonly url: string
  readonly orm: MikroORM
  /** The main pool, which the ORM also uses. Its commits wait for the disk. */
  readonly durablePool: Pool
  /**
   * A small pool whose commits do not wait for the disk: a crash of the server may lose the latest
   * commits. For bookkeeping that can be repeated.
   */
  readonly relaxedPool: Pool
  /**
   * The pool for authentication, recording and sequencing, which every payment needs. Its statements are hot: each has a
   * deadline of 5 s. Lists and verification cannot use up its connections.
   */
  readonly recordingPool: Pool
  /** The open connections of all three pools. */
  readonly connections: OpenConnections
  /** Runs look-ups and pages of lists, on a replica if possible. */
  readonly read: Read
  close(): Promise<void>
}

/** These options detect an unavailable server within seconds, and bound every statement. */
const CONNECTION = {
  application_name: 'inflow',
  connectionTimeoutMillis: 5_000,
  query_timeout: DEADLINES.any,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
}

/** What a session sets when it begins. */
const SESSION = {
  statement_timeout: 30_000,
  options: sessionOptions(),
}

/** The capabilities of a connection pooler, such as PgBouncer, between the service and the server. */
export interface PoolerOptions {
  /**
   * Whether the pooler assigns a server connection for the duration of a transaction only.
   * Sessions then set nothing: commits of the relaxed pool wait for the disk, and the settings of the role apply,
   * which the start checks (`readForeignSettings`).
   */
  readonly transactionPooling?: boolean
  /** Absent: true. */
  readonly preparedStatements?: boolean
}

/** The maximum number of connections in the pools of one process. */
interface PoolSizes {
  readonly connectionsMax: number
  readonly relaxedMax: number
  readonly recordingMax: number
}

/** Large enough that slow statements do not block all others; also the minimum of `DATABASE_POOL_SIZE`. */
const POOL_SIZE_MIN = 11

/**
 * Returns the sizes of the pools of each worker.
 *
 * @param poolSize the connections of one worker; absent: the pools of all workers together are as large as those of
 * one process, but each worker has at least the minimum
 */
export function poolSizes(
  workers: number,
  poolSize = Math.max(POOL_SIZE_MIN, Math.ceil(28 / workers)),
): PoolSizes {
  const recordingMax = Math.max(3, Math.round((poolSize * 6) / 28))
  const relaxedMax = Math.max(2, Math.round((poolSize * 6) / 28))
  return { connectionsMax: poolSize - relaxedMax - recordingMax, relaxedMax, recordingMax }
}

/** The connections of a service with this many workers, including their listeners. */
export function connectionsOfService(workers: number, poolSize?: number): number {
  const { connectionsMax, relaxedMax, recordingMax } = poolSizes(workers, poolSize)
  return workers * (connectionsMax + relaxedMax + recordingMax + 1)
}

/** The entities that the ORM maps to tables: the results of `defineEntity`. */
export type Entities = readonly EntitySchema[]

/** The configuration of the ORM for one database. */
export function ormConfig(
  url: string,
  entities: Entities,
  connectionsMax: number,
  pooler: PoolerOptions = {},
  connections?: OpenConnections,
) {
  return defineConfig({
    clientUrl: url,
    entities: [...entities],
    // Do not create a database with a mistyped name.
    ensureDatabase: false,
    extensions: [Migrator],
    pool: { max: connectionsMax },
    forceUtcTimezone: true,
    // The ORM reads only the common parts of the URL; pg also reads sslmode and the other query parameters.
    driverOptions: { ...connectionOptions(pooler, connections), connectionString: url },
    migrations: {
      migrationsList: [...MIGRATIONS],
      // The folder of the snapshot, into which `migration:create` writes.
      path: join(import.meta.dirname, 'migrations'),
      emit: 'ts',
      snapshot: true,
      snapshotName: 'snapshot',
      // Only `migration:create` writes the snapshot; it does not describe the state of a database.
      snapshotOnMigrate: false,
      tableName: 'schema_migration',
    },
    // Entities are read in small transactions of their own; nothing is shared between calls.
    allowGlobalContext: false,
    // Errors reject the call, which logs them.
    logger: () => undefined,
  })
}

/**
 * Opens the pools. They connect at the first statement.
 *
 * @param url postgres://…
 */
export async function openDatabase(
  url: string,
  entities: Entities,
  options: Partial<PoolSizes> & PoolerOptions = {},
): Promise<Database> {
  const { connectionsMax, relaxedMax, recordingMax } = { ...poolSizes(1), ...options }
  const { transactionPooling = false } = options
  const connections = new OpenConnections()
  const orm = await MikroORM.init(ormConfig(url, entities, connectionsMax, options, connections))
  const durablePool = (await orm.em.getConnection().getNativeClient()) as Pool
  const relaxedPool = openPool(url, options, connections, {
    max: relaxedMax,
    ...(!transactionPooling && { options: sessionOptions({ synchronous_commit: 'off' }) }),
  })
  const recordingPool = openPool(url, options, connections, {
    max: recordingMax,
    // These connections stay open, because opening them under a sudden load would take too long.
    min: recordingMax,
    // A responsive server cancels the statement itself, which keeps the connection.
    ...(!transactionPooling && { statement_timeout: DEADLINES.hot - 500 }),
    query_timeout: DEADLINES.hot,
  })
  const close = async (): Promise<void> => {
    await Promise.all([relaxedPool.end(), recordingPool.end(), orm.close()])
  }
  const read: Read = (run) => run(durablePool)
  return { url, orm, durablePool, relaxedPool, recordingPool, connections, read, close }
}

/**
 * Opens the pool of a replica. It runs only hot reads and pages of lists, with short time-outs for a server that
 * does not respond.
 */
export function openReadPool(url: string, pooler: PoolerOptions, max: number): Pool {
  return openPool(url, pooler, new OpenConnections(), {
    max,
    connectionTimeoutMillis: REPLICA_TIMEOUT_MS,
    ...(!pooler.transactionPooling && { statement_timeout: DEADLINES.hot - 500 }),
    query_timeout: DEADLINES.hot,
  })
}

function connectionOptions(
  { transactionPooling, preparedStatements }: PoolerOptions,
  connections?: OpenConnections,
) {
  const Client = createClientClass(connections, preparedStatements)
  return { ...CONNECTION, ...(!transactionPooling && SESSION), Client }
}

function openPool(
  url: string,
  pooler: PoolerOptions,
  connections: OpenConnections,
  options: pg.PoolConfig,
): Pool {
  const defaults = connectionOptions(pooler, connections)
  const pool = new pg.Pool({ ...defaults, connectionString: url, ...options })
  // The pool replaces a connection that fails while it is idle. The ORM handles the event for its own pool.
  pool.on('error', () => undefined)
  return pool
}
