import { join } from 'node:path'
import type { EntitySchema } from '@mikro-orm/core'
import { Migrator } from '@mikro-orm/migrations'
import { defineConfig, MikroORM } from '@mikro-orm/postgresql'
import pg, { type Pool } from 'pg'
import { createClientClass, DEADLINES } from './client.ts'
import { OpenConnections } from './open-connections.ts'
import { REPLICA_TIMEOUT_MS } from './replicas/replica.ts'
import type { Read } from './replicas/replicas.ts'
import { sessionOptions } from './session.ts'

/** The connections to the database. */
export interface Database {
  /** postgres://… */
  readonly url: string
  readonly orm: MikroORM
  /** The main pool, which the ORM uses too. Its commits wait for the disk. */
  readonly durablePool: Pool
  /**
   * A small pool whose commits do not wait for the disk: a crash of the server may lose the last
   * of them, whole and in order. For bookkeeping that can be repeated.
   */
  readonly relaxedPool: Pool
  /**
   * For what every payment needs: authentication, recording, sequencing. Its statements are hot:
   * each has a deadline of 5 s. Lists and verification cannot take its connections.
   */
  readonly recordingPool: Pool
  /** Of all three pools. */
  readonly connections: OpenConnections
  /** For look-ups and pages of lists, which may then run on a replica. */
  readonly read: Read
  close(): Promise<void>
}

/** An unavailable server is detected within seconds, and no statement runs for ever. */
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
  idle_in_transaction_session_timeout: 60_000,
  options: sessionOptions(),
}

/** What a connection pooler such as PgBouncer between the service and the server supports. */
export interface PoolerOptions {
  /**
   * Whether a connection of the service has a connection of the server for each transaction only.
   * Then it sets nothing for a session: commits of the relaxed pool wait for the disk, and all
   * settings are those of the role, which the start checks (`readForeignSettings`).
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

/** Large enough that slow statements do not block all others; also the least `DATABASE_POOL_SIZE`. */
const POOL_SIZE_MIN = 11

/**
 * The pools of each worker.
 *
 * @param poolSize of one worker; absent: the pools of all workers together are as large as those of
 * one process, but each has at least the smallest size
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

/** What the ORM maps to tables: the results of `defineEntity`. */
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
    // A mistyped name must not become a new database.
    ensureDatabase: false,
    extensions: [Migrator],
    pool: { max: connectionsMax },
    forceUtcTimezone: true,
    // The ORM reads of the URL what all drivers have; pg reads sslmode and all else that follows the question mark.
    driverOptions: { ...connectionOptions(pooler, connections), connectionString: url },
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
    // They stay open: a flood leaves no time to connect.
    min: recordingMax,
    // A server that answers ends a statement itself, and the connection stays.
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
 * Opens the pool of a replica. The reads that go there are hot, or a page; none waits for a server that
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
  // A connection that dies while it is idle is replaced. The ORM does the same for its pool.
  pool.on('error', () => undefined)
  return pool
}
