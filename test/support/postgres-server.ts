import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { serverUser, spawnAs } from '../../src/postgres/embedded/server-user.ts'
import { freePort } from './free-port.ts'

/** A PostgreSQL server as users run it: with its own defaults, and without the settings of the embedded server. */
export interface PostgresServer {
  /** The URL of a superuser for the database "inflow". */
  readonly url: string
  readonly pid: number
  /** Fast shutdown; resolves when the postmaster is gone. Idempotent. */
  stop(): Promise<void>
}

interface Options {
  /** The folder of `initdb` and `postgres`. */
  readonly bin: string
  /** The data folder, created if absent; its parent must be open to other users (`makeFolder`). */
  readonly folder: string
  /** Settings on top of the server's defaults. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Tests that crash a server start their own, with fsync on. */
export const TEST_SETTINGS = { fsync: 'off', full_page_writes: 'off', max_connections: '600' }

const DEBIAN = '/usr/lib/postgresql'
const SUPERUSER = 'inflow'
const START_MS = 300_000

/**
 * The folder of the programs of an installed PostgreSQL: `TEST_POSTGRES_BIN`, or the newest version of Debian;
 * undefined if none is installed.
 */
export function findPostgres(): string | undefined {
  const given = process.env['TEST_POSTGRES_BIN']
  if (given) return given
  if (!existsSync(DEBIAN)) return undefined
  return readdirSync(DEBIAN)
    .toSorted((a, b) => Number(b) - Number(a))
    .map((version) => join(DEBIAN, version, 'bin'))
    .find((bin) => existsSync(join(bin, 'initdb')))
}

/** Starts a server on a free port of the loopback interface; root runs it as an unprivileged user. */
export async function startPostgres({ bin, folder, settings }: Options): Promise<PostgresServer> {
  const user = serverUser(folder)
  const password = 'inflow-test'
  if (!existsSync(join(folder, 'PG_VERSION'))) await createCluster(bin, folder, password)
  const port = await freePort()
  const own = { port, listen_addresses: '127.0.0.1', unix_socket_directories: '' }
  const flags = Object.entries({ ...settings, ...own }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  const log = openSync(`${folder}.log`, 'a')
  const child = spawn(join(bin, 'postgres'), ['-D', folder, ...flags], {
    ...spawnAs(user),
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  const kill = () => void child.kill('SIGQUIT')
  process.once('exit', kill)
  const ended = once(child, 'exit').then(() => void process.off('exit', kill))
  const url = (database: string) =>
    `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/${database}`
  await Promise.race([
    createDatabase(url('postgres')),
    ended.then(() => {
      throw new Error(`PostgreSQL did not start: ${readFileSync(`${folder}.log`, 'utf8')}`)
    }),
  ])
  return {
    url: url('inflow'),
    pid: child.pid as number,
    async stop() {
      child.kill('SIGINT')
      await ended
    },
  }
}

/** Creates a cluster with the collation of a language, as on most servers, so that text does not sort by bytes. */
async function createCluster(bin: string, folder: string, password: string): Promise<void> {
  const user = serverUser(folder)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const file = `${folder}.password`
  await writeFile(file, password)
  if (user !== undefined) for (const path of [folder, file]) await chown(path, user.uid, user.gid)
  const access = ['-U', SUPERUSER, '--pwfile', file, '--auth', 'scram-sha-256', '--no-sync']
  const icu = ['--locale-provider', 'icu', '--icu-locale', 'en-US', '--locale', 'C.UTF-8']
  await promisify(execFile)(
    join(bin, 'initdb'),
    ['-D', folder, ...access, '-E', 'UTF8', ...icu],
    spawnAs(user),
  )
}

/** Waits until the server accepts connections. */
async function createDatabase(url: string): Promise<void> {
  const until = performance.now() + START_MS
  for (;;) {
    const client = new Client({ connectionString: url })
    try {
      await client.connect()
      const { rowCount } = await client.query(`select from pg_database where datname = 'inflow'`)
      if (rowCount === 0) await client.query('create database inflow')
      return
    } catch (error) {
      if (performance.now() > until) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    } finally {
      await client.end().catch(() => undefined)
    }
  }
}
