import { randomBytes } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { findLatestDetails } from '../auth/audit/list-audit-entries.ts'
import { type Actor, BOOTSTRAP, systemActor } from '../auth/caller.ts'
import { createSignInCode } from '../auth/sessions/sign-in-codes.ts'
import { readAdministratorRisk } from '../auth/tokens.ts'
import { createBusiness } from '../businesses/create-business.ts'
import { findBusinessNames } from '../businesses/get-business.ts'
import { type Config, ConfigError } from '../config/config.ts'
import { exposure, loadEnvFile } from '../config/env-file.ts'
import { secretText } from '../config/settings.ts'
import {
  findUnknown,
  readStartConfig,
  settingRisks,
  simulatedLiveBanks,
  unknownRisk,
} from '../config/start-settings.ts'
import { systemClock } from '../core/clock.ts'
import { withTimeout } from '../core/concurrency.ts'
import { freePorts } from '../core/free-ports.ts'
import { readIfPresent, writePrivate } from '../core/private-file.ts'
import { createEncrypter } from '../crypto/encryption.ts'
import { type EmbeddedPostgres, startEmbedded } from '../postgres/embedded/embedded.ts'
import { exitOnSignals } from '../postgres/embedded/exit-on-signals.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { missingDatabase } from '../postgres/is-retryable.ts'
import { migrate, newestMigration, requireSchema, SchemaError } from '../postgres/migrate.ts'
import { connectionsOfService, type Database, openDatabase, poolSizes } from '../postgres/orm.ts'
import { readServerRisks } from '../postgres/server-risks.ts'
import { readServerVersion } from '../postgres/server-state.ts'
import { requireSettings } from '../postgres/session.ts'
import { listenFault } from '../server/connections.ts'
import { isConsoleBuilt } from '../server/http/documents.ts'
import { openTls } from '../server/tls.ts'
import { closeOnSignals, type Stoppable } from './close-on-signals.ts'
import { ENTITIES } from './entities.ts'
import type { Ports } from './open-servers.ts'
import { openLog, readKeyRing, startFaults, startInstance, textOf } from './start-instance.ts'
import { superviseWorkers } from './supervise-workers.ts'
import { VERSION } from './version.ts'

/** The connections of the embedded database that remain for the command line and psql. */
const OTHER_CONNECTIONS = 30

/**
 * Runs the service until SIGTERM, SIGINT or the end of its terminal. If it cannot start, prints each fault as one line and
 * exits with 1.
 *
 * @param env the settings of `--env-file` are added to it, so that worker processes inherit them
 */
export async function run(env: NodeJS.ProcessEnv, argv: readonly string[] = []): Promise<void> {
  try {
    const file = loadEnvFile(env, argv)
    const warning = file && exposure(file)
    if (warning !== undefined) void report([`warning: ${warning}`])
    const config = readStartConfig(env, file)
    const log = openLog(config, secretText(env, 'MASTER_KEY'))
    for (const { found, advice } of findUnknown(env, file).map(unknownRisk)) {
      log.warn({ found, advice }, 'risk of a setting')
    }
    await serve(config, log)
  } catch (error) {
    await withTimeout(report(startFaults(error)), REPORT_MS)
    process.exit(1)
  }
}

/** How long the process waits for a slow reader of standard error. */
const REPORT_MS = 5_000

/** Prints lines to standard error, and waits until they are written: `process.exit` would drop unwritten lines. */
function report(lines: readonly string[]): Promise<void> {
  const text = lines.map((line) => `inflow: ${line}\n`).join('')
  return new Promise((resolve) => process.stderr.write(text, () => resolve()))
}

async function serve(given: Config, log: Logger): Promise<void> {
  const config = withPossibleWorkers(given, log)
  const print = (line: string) => process.stdout.write(`${line}\n`)
  const embedded = config.databaseUrl === undefined
  // Workers read the files themselves. They are also read here to find faults before workers start.
  const tls = config.tls && openTls(config.tls, log)
  const restoreSignals = exitOnSignals()
  const hasTerminal = await hasControllingTerminal()
  const postgres = embedded
    ? await startEmbedded({
        folder: resolve(config.dataDir, 'postgres'),
        settings: connectionSettings(config),
        log: print,
      })
    : undefined
  const stopDatabase = async () => postgres?.stop()
  let database: Database | undefined
  try {
    const url = config.databaseUrl ?? (postgres as EmbeddedPostgres).url
    database = await connect(
      openDatabase(url, ENTITIES, {
        ...poolSizes(1, config.databasePoolSize),
        ...config.pooler,
      }),
      embedded,
    )
    await connect(requireSettings(database.durablePool), embedded)
    const schema = config.migrate
      ? migrate(database, { onRetry: (reason) => log.warn({ reason }, 'migration repeated') })
      : requireSchema(database)
    await connect<unknown>(schema, embedded)
    for (const { found, advice } of await readServerRisks(database.durablePool)) {
      log.warn({ found, advice }, 'risk of the database')
    }
    const adminToken =
      config.adminToken ?? (embedded ? await readAdminToken(config.dataDir) : undefined)
    for (const { found, advice } of settingRisks(config)) {
      log.warn({ found, advice }, 'risk of a setting')
    }
    const serving = { config, database, adminToken, localWebhooks: embedded, log, tls }
    const service = config.workers > 1 ? await serveByWorkers(serving) : await serveHere(serving)
    // Read after everything else has started: a start that fails reports only its fault.
    const unadministered = await readAdministratorRisk(database.durablePool, {
      ...config,
      adminToken,
    })
    for (const { found, advice } of unadministered) log.warn({ found, advice }, 'risk of a setting')
    const system = await readSystem(config)
    await auditSettings(database.durablePool, config, system)
    const urls = urlsOf(config, service)
    const credentials = embedded
      ? await writeCredentials(config.dataDir, database, system, {
          admin_token: adminToken as string,
          ...urls,
        })
      : undefined
    const link =
      credentials &&
      config.console.enabled &&
      isConsoleBuilt() &&
      (await createStartLink(database, credentials.admin_token, urls.http_url, system))
    restoreSignals()
    const failed = Promise.race([service.failed, postgres?.died ?? service.failed])
    const reloads = config.tls !== undefined && !hasTerminal
    const opened = database
    closeOnSignals({
      service: { ...service, failed },
      closeDatabase: () => {
        void opened.close().catch(() => undefined)
        return stopDatabase()
      },
      reloads,
      delayMs: config.shutdownDelaySeconds * 1_000,
      log,
      report: (faults) => void report(faults),
    })
    await logStart(serving, service)
    print(readyText(urls, credentials, config.banks['9PSB']))
    if (link) print(`Console: ${link}\n`)
  } catch (error) {
    await database?.close()
    await stopDatabase()
    throw error
  }
}

/** Uses one process except on Linux, where SO_REUSEPORT distributes connections among processes. */
function withPossibleWorkers(config: Config, log: Logger): Config {
  if (config.workers === 1 || process.platform === 'linux') return config
  const found = `WORKERS is ${config.workers}, and only Linux distributes connections among processes`
  log.warn(
    { found, advice: 'one process serves: start instances on other ports' },
    'risk of a setting',
  )
  return { ...config, workers: 1 }
}

/** The service, as the audit log records it. */
async function readSystem(config: Config): Promise<Actor> {
  const { current, others } = await readKeyRing(config)
  return systemActor(createEncrypter(current, others))
}

type Serving = Parameters<typeof startInstance>[0]

/** The running service, in this process or in several. */
type Running = Ports & Stoppable

async function serveHere(serving: Serving): Promise<Running> {
  const { log } = serving
  const service = await startInstance(serving)
  return {
    ...service,
    close: async () => {
      const cut = await service.close()
      log.info({ ...cut }, 'servers closed')
    },
    reload: () => serving.tls?.reload(),
    failed: new Promise(() => undefined),
  }
}

/** Starts worker processes that share the ports; each has an operations port of its own. */
async function serveByWorkers(serving: Serving): Promise<Running> {
  const { config, database, adminToken, localWebhooks, log } = serving
  const failed = Promise.withResolvers<readonly string[]>()
  const ports = await choosePorts(config)
  const workers = await superviseWorkers({
    orders: ports.map((own, index) => ({
      number: index + 1,
      databaseUrl: database.url,
      adminToken,
      localWebhooks,
      ports: own,
    })),
    log,
    onFailure: failed.resolve,
  })
  return { ...(ports[0] as Ports), ...workers, failed: failed.promise }
}

/**
 * Returns the ports of each worker. Workers share two ports, and the operations port of each is OPS_PORT plus the number of
 * workers before it. Port 0 is replaced by a free port, because a replaced worker must listen on the same ports. Another
 * program could also listen on a shared port, so this requires that the ports are free.
 */
async function choosePorts({ host, workers, ...config }: Config): Promise<Ports[]> {
  const { httpPort, grpcPort, opsPort } = config
  const opsPorts =
    opsPort === undefined
      ? []
      : Array.from({ length: workers }, (_, index) => opsPort && opsPort + index)
  const settingOf = (port: number) => {
    if (port === grpcPort) return 'GRPC_PORT'
    return opsPorts.includes(port) && port !== httpPort ? 'OPS_PORT' : 'HTTP_PORT'
  }
  const [http = 0, grpc = 0, ...ops] = await freePorts(host, [
    httpPort,
    grpcPort,
    ...opsPorts,
  ]).catch((error: NodeJS.ErrnoException & { port?: number }) => {
    const { port = 0 } = error
    throw listenFault(settingOf(port), { host, port }, error)
  })
  return Array.from({ length: workers }, (_, index) => {
    return { httpPort: http, grpcPort: grpc, opsPort: ops[index] }
  })
}

function connectionSettings(config: Config): Readonly<Record<string, string>> {
  const needed = connectionsOfService(config.workers, config.databasePoolSize)
  const connections = needed + OTHER_CONNECTIONS
  return connections > 100 ? { max_connections: `${connections}` } : {}
}

/** Reports errors of a database that is not embedded as faults of DATABASE_URL. */
function connect<T>(step: Promise<T>, embedded: boolean): Promise<T> {
  return step.catch((error: unknown) => {
    if (embedded || error instanceof SchemaError) throw error
    const why = missingDatabase(error) ?? textOf(error)
    throw new ConfigError([`DATABASE_URL cannot be used: ${why}`])
  })
}

function urlsOf(config: Config, service: Ports) {
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  const scheme = config.tls ? 'https' : 'http'
  return {
    http_url: `${scheme}://${host}:${service.httpPort}`,
    grpc_url: `${scheme}://${host}:${service.grpcPort}`,
    ...(service.opsPort !== undefined && { ops_url: `${scheme}://${host}:${service.opsPort}` }),
  }
}

/**
 * Whether this process belongs to a terminal, which sends SIGHUP when it closes. isTTY does not show this, because
 * the output may be piped, as in `npm start | tee log`.
 */
function hasControllingTerminal(): Promise<boolean> {
  return open('/dev/tty').then(
    async (terminal) => {
      await terminal.close()
      return true
    },
    () => false,
  )
}

function readyText(
  urls: Pick<Credentials, 'http_url' | 'grpc_url' | 'ops_url'>,
  credentials: Credentials | undefined,
  bank: 'sandbox' | 'live',
): string {
  const operations = urls.ops_url === undefined ? '' : `, operations ${urls.ops_url}`
  const grpc = urls.grpc_url.replace('http://', '')
  const lines = [`Inflow is ready: HTTP ${urls.http_url}, gRPC ${grpc}${operations}`]
  if (credentials !== undefined) {
    const body = {
      reference: 'order-1',
      email: 'ada@example.com',
      phone: '08012345678',
      firstName: 'Ada',
      lastName: 'Obi',
      bank: '9PSB',
    }
    lines.push(
      '',
      `Create a virtual account (a ${bank} bank, and the demo business):`,
      '',
      `curl -sS ${urls.http_url}/v2/thirdparty/generateVirtualAccount/ \\`,
      `  -H 'Authorization: Bearer ${credentials.secret_key}' \\`,
      `  -H 'Content-Type: application/json' \\`,
      `  -d '${JSON.stringify(body)}'`,
      '',
    )
  }
  return lines.join('\n')
}

/** The target id of the setting in the audit log. */
const SETTING = 'ALLOW_SIMULATED_LIVE_ACCOUNTS'

/**
 * Appends to the audit log which banks simulate live accounts, if that has changed since the previous start.
 *
 * @param system the service, as the audit log records it
 */
export async function auditSettings(pool: Pool, config: Config, system: Actor): Promise<void> {
  const banks = simulatedLiveBanks(config)
  const details = banks === undefined ? { value: 'off' } : { value: 'on', banks }
  await inTransaction(pool, async (client) => {
    // The lock makes instances that start together add only one entry.
    await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [SETTING])
    const latest = await findLatestDetails(client, 'setting.change', SETTING)
    if (latest === JSON.stringify(details)) return
    if (latest === undefined && banks === undefined) return
    await appendAudit(client, system, { action: 'setting.change', targetId: SETTING, details })
  })
}

/** The credentials that embedded mode writes to the data folder, ready to use. */
interface Credentials {
  readonly business_id: string
  readonly secret_key: string
  readonly admin_token: string
  readonly http_url: string
  readonly grpc_url: string
  /** Present if OPS_PORT is set. */
  readonly ops_url?: string
}

const CREDENTIALS_FILE = 'credentials.json'

/** The admin token of the data folder, or a new one. */
async function readAdminToken(dataDir: string): Promise<string> {
  const stored = await readCredentials(dataDir)
  return stored?.admin_token ?? `inflow_admin_${randomBytes(32).toString('base64url')}`
}

/**
 * Writes `credentials.json` (mode 600). The first start creates a demo business; later starts update
 * the URLs and keep the rest.
 */
async function writeCredentials(
  dataDir: string,
  database: Database,
  actor: Actor,
  fresh: Pick<Credentials, 'admin_token' | 'http_url' | 'grpc_url' | 'ops_url'>,
): Promise<Credentials> {
  const stored = await readCredentials(dataDir)
  const names = await findBusinessNames(database.durablePool, stored ? [stored.business_id] : [])
  // The business of the file does not exist if the database was deleted after the file was written.
  const business =
    stored && names.has(stored.business_id) ? stored : await createDemoBusiness(database, actor)
  const { business_id, secret_key } = business
  const credentials = { business_id, secret_key, ...fresh }
  await writePrivate(dataDir, CREDENTIALS_FILE, `${JSON.stringify(credentials, undefined, 2)}\n`)
  return credentials
}

async function createDemoBusiness(database: Database, actor: Actor) {
  const request = { name: 'Demo Business', alias: 'Demo' }
  const { business, secretKey } = await createBusiness(
    { database, clock: systemClock },
    request,
    actor,
  )
  return { business_id: business.id, secret_key: secretKey }
}

async function readCredentials(dataDir: string): Promise<Credentials | undefined> {
  const text = await readIfPresent(join(dataDir, CREDENTIALS_FILE))
  if (text === undefined) return undefined
  try {
    return JSON.parse(text) as Credentials
  } catch {
    throw new Error(`${join(dataDir, CREDENTIALS_FILE)} is not JSON; delete it to create a new one`)
  }
}

/**
 * Returns a URL that signs one browser on this machine in with the rights of ADMIN_TOKEN, once.
 *
 * @param system the service, as the audit log records it
 */
async function createStartLink(
  database: Database,
  adminToken: string,
  httpUrl: string,
  system: Actor,
): Promise<string> {
  const caller = {
    kind: 'internal',
    tokenId: BOOTSTRAP,
    name: BOOTSTRAP,
    scopes: new Set(['admin'] as const),
  } as const
  const { urlPath } = await createSignInCode(
    { database, clock: systemClock },
    adminToken,
    caller,
    system,
  )
  return `${httpUrl}${urlPath}`
}

/** Logs the start: versions, mode, ports, and the settings that determine what the service does. */
async function logStart(
  { config, database, log }: { config: Config; database: Database; log: Logger },
  { httpPort, grpcPort, opsPort }: Ports,
): Promise<void> {
  const server = await readServerVersion(database.durablePool)
  log.info(
    {
      version: VERSION,
      node: process.versions.node,
      postgres: server.version,
      schema: newestMigration(database.orm),
      database: config.databaseUrl === undefined ? 'embedded' : 'external',
      host: config.host,
      http_port: httpPort,
      grpc_port: grpcPort,
      ops_port: opsPort,
      workers: config.workers,
      tls: config.tls !== undefined,
      live_banks: Object.keys(config.liveBanks),
      replicas: config.databaseReadUrls.length,
      relay: config.relay !== undefined,
      console: config.console.enabled,
      log_level: config.logLevel,
      shutdown_delay_seconds: config.shutdownDelaySeconds,
      start_ms: Math.round(performance.now()),
    },
    'started',
  )
}
