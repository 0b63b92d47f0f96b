import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { ENTITIES } from '../../src/app/entities.ts'
import { registerMasterKey } from '../../src/crypto/check-master-key.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { makeFolder } from '../support/folder.ts'
import { findPostgres, startPostgres } from '../support/postgres-server.ts'
import { parentOf } from './cpu-usage.ts'

/** What the benchmarks share. */
export interface Bench {
  readonly rounds: number
  /** How long one measurement of a contender takes. */
  readonly seconds: number
  /** How long each contender warms up: if too short, the first round measures the compiler. */
  readonly warmUpSeconds: number
  /** Whether benchmarks that count, rather than time, use smaller counts. */
  readonly quick: boolean
  /** A folder for files of the benchmarks; removed at the end. */
  readonly folder: string
  /** The database server: its version and whose settings it has. */
  readonly server: string
  /** Process id of the database server; undefined where it is unknown. */
  readonly postmaster: number | undefined
  readonly log: (line: string) => void
  /** A new database with the service's schema and nothing in it. @returns its URL */
  createDatabase(): Promise<string>
  /** Flushes earlier writes, so that no round pays for the one before it. */
  checkpoint(): Promise<void>
  /** Calls `stop` when the benchmark ends, in any way. Calls come in reverse order. */
  onEnd(stop: () => Promise<unknown>): void
  /** Runs what `onEnd` registered, and drops the benchmark's databases. */
  endBenchmark(): Promise<void>
  close(): Promise<void>
}

const DURABLE = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' }

const TEMPLATE = 'bench_template'

/** The master key of the measured services. */
export const MASTER_KEY = Buffer.alloc(32, 'bench')

/**
 * Starts a PostgreSQL of its own in a temporary folder: Debian's in its default configuration, as most users have it,
 * where it is installed; the embedded one elsewhere, or if BENCH_SERVER says so.
 */
export async function openBench(
  options: Pick<Bench, 'rounds' | 'seconds' | 'warmUpSeconds' | 'quick' | 'log'>,
): Promise<Bench> {
  const folder = await makeFolder('bench')
  const removeFolder = () => rm(folder, { recursive: true, force: true })
  const postgres = await startServer(join(folder, 'postgres')).catch(async (error: unknown) => {
    await removeFolder()
    throw error
  })
  const urlOf = (database: string) => {
    const url = new URL(postgres.url)
    url.pathname = `/${database}`
    return url.href
  }
  const admin = new pg.Client({ connectionString: urlOf('postgres') })
  const databases: string[] = []
  const ends: (() => Promise<unknown>)[] = []
  const endBenchmark = async (): Promise<void> => {
    for (const stop of ends.splice(0).reverse()) await stop()
    for (const name of databases.splice(0)) {
      await admin.query(`drop database ${name} with (force)`)
    }
  }
  const close = async (): Promise<void> => {
    await endBenchmark()
    await admin.end()
    await postgres.stop()
    await removeFolder()
  }
  let made = 0
  let postmaster: number | undefined
  let server = ''
  try {
    await admin.connect()
    await requireDurable(admin)
    const [version] = (await readSetting(admin, 'server_version')).split(' ', 1)
    server = `PostgreSQL ${version}, ${postgres.settings}`
    await makeTemplate(admin, urlOf(TEMPLATE))
    postmaster = await readPostmaster(admin)
  } catch (error) {
    await close()
    throw error
  }
  return {
    ...options,
    folder,
    server,
    postmaster,
    async createDatabase() {
      made += 1
      const name = `bench_${made}`
      await admin.query(`create database ${name} template ${TEMPLATE}`)
      databases.push(name)
      return urlOf(name)
    },
    checkpoint: async () => void (await admin.query('checkpoint')),
    onEnd: (stop) => void ends.push(stop),
    endBenchmark,
    close,
  }
}

async function startServer(folder: string) {
  const wanted = process.env['BENCH_SERVER'] ?? ''
  if (!['', 'embedded'].includes(wanted)) throw new Error('BENCH_SERVER may only be "embedded"')
  const sharedBuffers = process.env['BENCH_SHARED_BUFFERS']
  const settings = {
    max_connections: '200',
    ...(sharedBuffers && { shared_buffers: sharedBuffers }),
  }
  const also = sharedBuffers ? ` but for shared_buffers ${sharedBuffers}` : ''
  const bin = wanted === 'embedded' ? undefined : findPostgres()
  if (bin !== undefined) {
    const { url, stop } = await startPostgres({ bin, folder, settings })
    return { url, stop, settings: `Debian's defaults${also}` }
  }
  const embedded = await startEmbedded({ folder, settings: { ...DURABLE, ...settings } })
  return { url: embedded.url, stop: embedded.stop, settings: `embedded${also}` }
}

async function requireDurable(admin: pg.Client): Promise<void> {
  for (const name of Object.keys(DURABLE)) {
    if ((await readSetting(admin, name)) !== 'on') {
      throw new Error(`${name} is off: figures would mean nothing`)
    }
  }
}

async function readSetting(admin: pg.Client, name: string): Promise<string> {
  const { rows } = await admin.query<{ value: string }>('select current_setting($1) as value', [
    name,
  ])
  return rows[0]?.value ?? ''
}

async function makeTemplate(admin: pg.Client, url: string): Promise<void> {
  await admin.query(`create database ${TEMPLATE}`)
  const database = await openDatabase(url, ENTITIES, { connectionsMax: 2 })
  await migrate(database)
  // Seeded rows are not encrypted, so the service would take its own key for a wrong one.
  await registerMasterKey(database.orm, createEncrypter(MASTER_KEY))
  await database.close()
}

async function readPostmaster(admin: pg.Client): Promise<number | undefined> {
  const { rows } = await admin.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0] && parentOf(rows[0].pid)
}
