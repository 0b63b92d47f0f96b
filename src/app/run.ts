import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { findLatestDetails } from '../auth/audit/list-audit-entries.ts'
import { type Actor, BOOTSTRAP, systemActor } from '../auth/caller.ts'
import { createSignInCode } from '../auth/sessions/sign-in-codes.ts'
import { readAdministratorRisk } from '../auth/tokens/administrators.ts'
import { type Config, ConfigError } from '../config/config.ts'
import { exposure, loadEnvFile } from '../config/env-file.ts'
import { settingRisks, simulatedLiveBanks } from '../config/setting-risks.ts'
import { secretText } from '../config/settings.ts'
import { readStartConfig } from '../config/start-settings.ts'
import { findUnknown, unknownRisk } from '../config/unknown-settings.ts'
import { systemClock } from '../core/clock.ts'
import { freePorts } from '../core/free-ports.ts'
import { withTimeout } from '../core/with-timeout.ts'
import { createEncrypter } from '../crypto/encryption.ts'
import { type EmbeddedPostgres, startEmbedded } from '../postgres/embedded/embedded.ts'
import { exitOnSignals } from '../postgres/embedded/exit-on-signals.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { migrate, newestMigration, requireSchema, SchemaError } from '../postgres/migrate.ts'
import { missingDatabase } from '../postgres/missing-database.ts'
import { connectionsOfService, type Database, openDatabase, poolSizes } from '../postgres/orm.ts'
import { readServerRisks } from '../postgres/server-risks.ts'
import { requireSettings } from '../postgres/session.ts'
import { listenFault } from '../server/connections.ts'
import { isConsoleBuilt } from '../server/http/documents.ts'
import { openTls } from '../server/tls.ts'
import { closeOnSignals } from './close-on-signals.ts'
import { ENTITIES } from './entities.ts'
import type { Ports } from './open-servers.ts'
import { openLog, readKeyRing, startFaults, startInstance, textOf } from './start-instance.ts'
import { superviseWorkers } from './supervise-workers.ts'
import { VERSION } from './version.ts'
import { type Credentials, readAdminToken, writeCredentials } from './write-credentials.ts'

/** Connections of the embedded database that the service leaves to the command line and psql. */
const OTHER_CONNECTIONS = 30

/**
 * Runs the service until SIGTERM, SIGINT or the end of its terminal. Prints each fault of the start as one line and
 * exits with 1.
 *
 * @param env gets the settings of `--env-file` as well, so that worker processes inherit them
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

/** How long a reader of standard error has to take the faults. */
const REPORT_MS = 5_000

/** Prints lines to standard error. @returns once they are written: `process.exit` drops what waits for a slow reader */
function report(lines: readonly string[]): Promise<void> {
  const text = lines.map((line) => `inflow: ${line}\n`).join('')
  return new Promise((resolve) => process.stderr.write(text, () => resolve()))
}

async function serve(given: Config, log: Logger): Promise<void> {
  const config = withPossibleWorkers(given, log)
  const print = (line: string) => process.stdout.write(`${line}\n`)
  const embedded = config.databaseUrl === undefined
  // Workers read the files themselves; reading them here too finds faults before workers start.
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
    // A start that fails has no more than its fault to report.
    const unadministered = await readAdministratorRisk(database.durablePool, {
      ...config,
      adminToken,
    })
    for (const { found, advice } of unadministered) log.warn({ found, advice }, 'risk of a setting')
    const system = await readSystem(config)
    await auditSettings(database.durablePool, config, system)
    const urls = urlsOf(config, service)
    const credentials = embedded
      ? await writeCredentials(config.dataDir, database, systemClock, system, {
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

/** Several processes can share a port on Linux only (SO_REUSEPORT, which distributes connections). */
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
interface Running extends Ports {
  /** Reads the certificates again. */
  readonly reload: () => void
  announceStop(): void
  close(): Promise<void>
  /** Resolves with the faults when the service cannot go on; a supervisor may start it again. */
  readonly failed: Promise<readonly string[]>
}

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

/** Several processes share the ports; each has an operations port of its own. */
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
 * The ports of each worker: they share two, and the operations port of each is OPS_PORT plus the number of workers
 * before it. A port 0 is replaced by a free one, as replacements must listen on the same ports. Processes that share a
 * port would share it with another program that does the same, so it must be free now.
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

/** A fault of the database that DATABASE_URL names is reported as a fault of that setting. */
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
 * Whether this process belongs to a terminal, which sends SIGHUP when it closes. isTTY does not show that:
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

/** What the audit log calls the setting. */
const SETTING = 'ALLOW_SIMULATED_LIVE_ACCOUNTS'

/**
 * Appends to the audit log that live accounts are simulated, at which banks, and later that they no
 * longer are. A start that changes nothing adds nothing.
 *
 * @param system the service, as the audit log records it
 */
export async function auditSettings(pool: Pool, config: Config, system: Actor): Promise<void> {
  const banks = simulatedLiveBanks(config)
  const details = banks === undefined ? { value: 'off' } : { value: 'on', banks }
  await inTransaction(pool, async (client) => {
    // Instances that start together add one entry.
    await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [SETTING])
    const latest = await findLatestDetails(client, 'setting.change', SETTING)
    if (latest === JSON.stringify(details)) return
    if (latest === undefined && banks === undefined) return
    await appendAudit(client, system, { action: 'setting.change', targetId: SETTING, details })
  })
}

/**
 * Returns the URL that signs a browser of this machine in as ADMIN_TOKEN, once.
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
    { adminToken },
    caller,
    system,
  )
  return `${httpUrl}${urlPath}`
}

/** Logs what has started: versions, mode, ports, and the settings that decide what the service does. */
async function logStart(
  { config, database, log }: { config: Config; database: Database; log: Logger },
  { httpPort, grpcPort, opsPort }: Ports,
): Promise<void> {
  const { rows } = await database.durablePool.query<{ version: string }>(
    "select current_setting('server_version') as version",
  )
  log.info(
    {
      version: VERSION,
      node: process.versions.node,
      postgres: rows[0]?.version,
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
