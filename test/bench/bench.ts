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
  const ends = [() => rm(folder, { recursive: true, force: true })]
  const endAll = async (ends: (() => Promise<unknown>)[]) => {
    for (const stop of ends.splice(0).reverse()) await stop()
  }
  try {
    const postgres = await startServer(join(folder, 'postgres'))
    ends.push(postgres.stop)
    const urlOf = (database: string) =>
      Object.assign(new URL(postgres.url), { pathname: database }).href
    const admin = new pg.Client({ connectionString: urlOf('postgres') })
    await admin.connect()
    ends.push(() => admin.end())
    for (const name of Object.keys(DURABLE)) {
      if ((await readValue(admin, `current_setting('${name}')`)) !== 'on')
        throw new Error(`${name} is off: figures would mean nothing`)
    }
    const version = await readValue(admin, "split_part(current_setting('server_version'), ' ', 1)")
    const backend = Number(await readValue(admin, 'pg_backend_pid()'))
    await makeTemplate(admin, urlOf(TEMPLATE))
    const ofBenchmark: (() => Promise<unknown>)[] = []
    let made = 0
    // A signal may come while the last benchmark ends.
    let closing: Promise<void> | undefined
    return {
      ...options,
      folder,
      server: `PostgreSQL ${version}, ${postgres.settings}`,
      postmaster: parentOf(backend),
      async createDatabase() {
        made += 1
        const name = `bench_${made}`
        await admin.query(`create database ${name} template ${TEMPLATE}`)
        ofBenchmark.unshift(() => admin.query(`drop database ${name} with (force)`))
        return urlOf(name)
      },
      checkpoint: async () => void (await admin.query('checkpoint')),
      onEnd: (stop) => void ofBenchmark.push(stop),
      endBenchmark: () => endAll(ofBenchmark),
      close() {
        closing ??= endAll(ofBenchmark).then(() => endAll(ends))
        return closing
      },
    }
  } catch (error) {
    await endAll(ends)
    throw error
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
  const { url, stop } = await startEmbedded({ folder, settings: { ...DURABLE, ...settings } })
  return { url, stop, settings: `embedded${also}` }
}

async function makeTemplate(admin: pg.Client, url: string): Promise<void> {
  await admin.query(`create database ${TEMPLATE}`)
  const database = await openDatabase(url, ENTITIES, { connectionsMax: 2 })
  await migrate(database)
  // Seeded rows are not encrypted, so the service would take its own key for a wrong one.
  await registerMasterKey(database.orm, createEncrypter(MASTER_KEY))
  await database.close()
}

async function readValue(admin: pg.Client, expression: string): Promise<string> {
  const { rows } = await admin.query(`select (${expression})::text as value`)
  return rows[0].value
}
