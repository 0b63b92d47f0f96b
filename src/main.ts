import { resolve } from 'node:path'
import pino, { type Logger } from 'pino'
import { systemClock } from './clock.ts'
import { type Config, ConfigError, readConfig } from './config.ts'
import { type Credentials, readAdminToken, writeCredentials } from './credentials.ts'
import { readKeyFiles } from './key-files.ts'
import { createLog } from './log.ts'
import { openTls } from './server/tls.ts'
import { type Service, startService } from './service.ts'
import { type EmbeddedPostgres, startEmbedded } from './store/embedded.ts'
import { type Database, migrate, openDatabase } from './store/orm.ts'

/** Everything must be over within 10 s of a signal; the database gets what is left of it. */
const CLOSE_MS = 8_500

/** Runs the service until SIGTERM or SIGINT. Faults of the start are one line each, and exit 1. */
export async function main(env: NodeJS.ProcessEnv): Promise<void> {
  try {
    const config = readConfig(env)
    const secrets = [config.adminToken, env['MASTER_KEY']?.trim()].filter((text) => !!text)
    const stderr = pino.destination({ dest: 2, sync: false })
    const log = createLog(config.logLevel, secrets as string[], stderr)
    await run(config, log)
  } catch (error) {
    for (const line of startFaults(error)) process.stderr.write(`inflow: ${line}\n`)
    process.exit(1)
  }
}

async function run(config: Config, log: Logger): Promise<void> {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const embedded = config.databaseUrl === undefined
  const tls = config.tls && openTls(config.tls, log)
  const postgres = embedded
    ? await startEmbedded({ folder: resolve(config.dataDir, 'postgres'), log: say })
    : undefined
  const stopDatabase = stopOnce(postgres)
  let database: Database | undefined
  try {
    const url = config.databaseUrl ?? (postgres as EmbeddedPostgres).url
    database = await reach(openDatabase(url), embedded)
    await reach(migrate(database), embedded)
    const { masterKey, masterKeyPrevious, dataDir } = config
    const keys =
      masterKey === undefined
        ? await readKeyFiles(dataDir)
        : { current: masterKey, others: masterKeyPrevious }
    const adminToken =
      config.adminToken ?? (embedded ? await readAdminToken(config.dataDir) : undefined)
    const service = await startService({
      config,
      database,
      masterKey: keys.current,
      otherKeys: keys.others,
      ...(masterKey === undefined && { rereadKeys: () => readKeyFiles(dataDir) }),
      adminToken,
      clock: systemClock,
      log,
      localWebhooks: embedded,
      tls,
    })
    const urls = urlsOf(config, service)
    const credentials = embedded
      ? await writeCredentials(config.dataDir, database, systemClock, {
          ...urls,
          admin_token: adminToken as string,
        })
      : undefined
    closeOnSignal(service, database, stopDatabase)
    process.on('SIGHUP', () => tls?.reload())
    say(readyText(urls, credentials))
  } catch (error) {
    await database?.close()
    await stopDatabase()
    throw error
  }
}

/** A fault of a database that was chosen by its setting names the setting. */
function reach<T>(step: Promise<T>, embedded: boolean): Promise<T> {
  return step.catch((error: unknown) => {
    throw embedded ? error : new ConfigError([`DATABASE_URL cannot be used: ${textOf(error)}`])
  })
}

function stopOnce(postgres: EmbeddedPostgres | undefined): () => Promise<void> {
  return async () => postgres?.stop()
}

function urlsOf(config: Config, service: Service) {
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  const scheme = config.tls ? 'https' : 'http'
  return {
    http_url: `${scheme}://${host}:${service.httpPort}`,
    grpc_url: `${scheme}://${host}:${service.grpcPort}`,
  }
}

function closeOnSignal(
  service: Service,
  database: Database,
  stopDatabase: () => Promise<void>,
): void {
  let closing = false
  const close = async (): Promise<void> => {
    if (closing) return
    closing = true
    let code = 0
    try {
      await Promise.race([service.close(), new Promise((done) => setTimeout(done, CLOSE_MS))])
      // Connections of a service that did not finish in time are cut with the process.
      void database.close().catch(() => undefined)
      await stopDatabase()
    } catch (error) {
      process.stderr.write(`inflow: ${(error as Error).message}\n`)
      code = 1
    }
    process.exit(code)
  }
  process.on('SIGTERM', close)
  process.on('SIGINT', close)
}

function readyText(
  urls: Pick<Credentials, 'http_url' | 'grpc_url'>,
  credentials: Credentials | undefined,
): string {
  const lines = [
    `Inflow is ready: HTTP ${urls.http_url}, gRPC ${urls.grpc_url.replace('http://', '')}`,
  ]
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
      'Create a virtual account (a sandbox bank, and the demo business):',
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

/** One line for each fault; where a setting is the cause, it names the setting. */
function startFaults(error: unknown): readonly string[] {
  if (error instanceof ConfigError) return error.faults
  const { code, syscall, port } = error as NodeJS.ErrnoException & { port?: number }
  const text = textOf(error)
  if (code === 'EADDRINUSE') return [`HTTP_PORT ${port} is in use`]
  if (syscall === 'listen' || syscall === 'getaddrinfo') {
    return [`HOST and HTTP_PORT cannot be listened at: ${text}`]
  }
  return [text.startsWith('gRPC cannot listen') ? `GRPC_PORT: ${text}` : text]
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

if (process.argv[1] === import.meta.filename) await main(process.env)
