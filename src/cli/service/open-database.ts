import { existsSync } from 'node:fs'
import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'
import { ENTITIES } from '../../app/entities.ts'
import type { AuditKeys } from '../../auth/audit/audit-hash.ts'
import type { Actor } from '../../auth/caller.ts'
import { secretText } from '../../config/settings.ts'
import { exitOnSignals } from '../../postgres/embedded/exit-on-signals.ts'
import { isRetryable, missingDatabase } from '../../postgres/is-retryable.ts'
import { type Database, openDatabase, type PoolerOptions } from '../../postgres/orm.ts'
import { EXIT, Failure, note } from '../output.ts'

/**
 * Opens the database of the service, runs `use`, and closes the database again. Starts the embedded database
 * unless a service already runs it.
 */
export async function withDatabase<Result>(
  env: NodeJS.ProcessEnv,
  ifMissing: 'create' | 'must exist',
  use: (database: Database) => Promise<Result>,
): Promise<Result> {
  const url = secretText(env, 'DATABASE_URL', refuse)
  if (url) return withUrl(url, use, poolerOf(env))
  const dataDir = env['DATA_DIR']?.trim() || '.inflow'
  return withEmbedded(dataDir, ifMissing, (own) => withUrl(own, use))
}

async function withEmbedded<Result>(
  dataDir: string,
  ifMissing: 'create' | 'must exist',
  use: (url: string) => Promise<Result>,
): Promise<Result> {
  const folder = join(dataDir, 'postgres')
  if (ifMissing === 'must exist' && !existsSync(folder)) {
    throw new Failure(
      EXIT.refused,
      `there is no database in ${folder} yet: create it with \`inflow migrate up\` or \`npm start\`, or set DATABASE_URL`,
    )
  }
  const { findRunningEmbedded, startEmbedded } = await import('../../postgres/embedded/embedded.ts')
  const running = await findRunningEmbedded(folder)
  if (running !== undefined) return use(running)
  const restoreSignals = exitOnSignals()
  try {
    const server = await startEmbedded({ folder, log: note })
    try {
      return await use(server.url)
    } finally {
      await server.stop()
    }
  } finally {
    restoreSignals()
  }
}

/** @param text continues the name of the setting */
function refuse(text: string): never {
  throw new Failure(EXIT.usage, `DATABASE_URL${text}`)
}

function poolerOf(env: NodeJS.ProcessEnv): PoolerOptions {
  return {
    transactionPooling: env['DATABASE_POOLING']?.trim() === 'transaction',
    preparedStatements: env['DATABASE_PREPARED_STATEMENTS']?.trim() !== 'off',
  }
}

async function withUrl<Result>(
  url: string,
  use: (database: Database) => Promise<Result>,
  pooler: PoolerOptions = {},
): Promise<Result> {
  if (!URL.canParse(url) || !/^postgres(ql)?:$/.test(new URL(url).protocol)) {
    throw new Failure(EXIT.usage, 'DATABASE_URL must be like postgres://user@host:5432/database')
  }
  let database: Database | undefined
  try {
    // Two connections: one holds the migration lock, and the other migrates.
    database = await openDatabase(url, ENTITIES, { connectionsMax: 2, ...pooler })
    return await use(database)
  } catch (error) {
    const missing = missingDatabase(error)
    if (missing) throw new Failure(EXIT.refused, `DATABASE_URL cannot be used: ${missing}`)
    if (!isRetryable(error)) throw error
    const why = error instanceof Error && error.message ? `: ${error.message}` : ''
    throw new Failure(EXIT.unreachable, `cannot reach the database at ${new URL(url).host}${why}`)
  } finally {
    await database?.close()
  }
}

/** The actor of audit entries for commands that work on the database itself: the user who runs the command. */
export function commandLineActor(auditKeys: AuditKeys): Actor {
  const name = `${userName()}@${hostname()}`
  return { kind: 'command_line', id: '', name, address: '', requestId: '', auditKeys }
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // In a container, the user may have no name.
    return `uid ${process.getuid?.()}`
  }
}
