import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { isDatabaseAway } from '../store/away.ts'
import { type Database, migrate as migrateUp, openDatabase } from '../store/orm.ts'
import { EXIT, Failure } from './failure.ts'
import { note, print, table } from './output.ts'
import { addVerb } from './verb.ts'

/** One migration, as `status` tells of it. */
interface Migration {
  readonly name: string
  /** ISO 8601; null: pending. */
  readonly appliedAt: string | null
}

interface JsonOption {
  readonly json?: boolean
}

/** `inflow migrate` */
export function migrate(noun: Command): void {
  addVerb(noun, 'up', {
    summary: 'bring the schema of DATABASE_URL, else of the embedded database, up to date',
    example: 'migrate up',
  })
    .option('--json', 'print one JSON document: {"applied": [names]}')
    .action(up)
  addVerb(noun, 'status', {
    summary: 'show which migrations ran; exit code 1 when any is pending',
    example: 'migrate status',
  })
    .option('--json', 'print one JSON document: {"migrations": [{name, appliedAt}]}')
    .action(status)
}

async function up(options: JsonOption): Promise<void> {
  const applied = await withDatabase(process.env, 'make it', migrateUp)
  if (options.json) return print(JSON.stringify({ applied }, null, 2))
  for (const name of applied) print(name)
  note(
    applied.length === 0
      ? 'Nothing to do: the schema is up to date.'
      : `Applied ${applied.length}.`,
  )
}

async function status(options: JsonOption): Promise<void> {
  const migrations = await withDatabase(process.env, 'must exist', readMigrations)
  if (options.json) print(JSON.stringify({ migrations }, null, 2))
  else {
    const text = table(migrations, [
      { title: 'Migration', of: ({ name }) => name },
      { title: 'Applied at', of: ({ appliedAt }) => appliedAt ?? 'pending' },
    ])
    if (text !== '') print(text)
  }
  const pending = migrations.filter(({ appliedAt }) => appliedAt === null).length
  if (pending > 0) throw new Failure(EXIT.refused, `${pending} pending: run \`inflow migrate up\``)
}

async function readMigrations({ orm }: Database): Promise<Migration[]> {
  const executed = await orm.migrator.getExecuted()
  const pending = await orm.migrator.getPending()
  return [
    ...executed.map((row) => ({ name: row.name, appliedAt: row.executed_at.toISOString() })),
    ...pending.map(({ name }) => ({ name, appliedAt: null })),
  ]
}

/** Opens the database that the service would use, hands it over, and closes what was opened. */
async function withDatabase<Result>(
  env: NodeJS.ProcessEnv,
  absent: 'make it' | 'must exist',
  use: (database: Database) => Promise<Result>,
): Promise<Result> {
  const url = env['DATABASE_URL']?.trim()
  if (url) return withUrl(url, use)
  const folder = join(env['DATA_DIR']?.trim() || '.inflow', 'postgres')
  if (absent === 'must exist' && !existsSync(folder)) {
    throw new Failure(
      EXIT.refused,
      `there is no database in ${folder} yet: \`inflow migrate up\` or \`npm start\` makes it, or set DATABASE_URL`,
    )
  }
  const { startEmbedded } = await import('../store/embedded.ts')
  const server = await startEmbedded({ folder, log: note })
  try {
    return await withUrl(server.url, use)
  } finally {
    await server.stop()
  }
}

async function withUrl<Result>(
  url: string,
  use: (database: Database) => Promise<Result>,
): Promise<Result> {
  if (!URL.canParse(url) || !/^postgres(ql)?:$/.test(new URL(url).protocol)) {
    throw new Failure(EXIT.usage, 'DATABASE_URL must be like postgres://user@host:5432/database')
  }
  let database: Database | undefined
  try {
    // One connection holds the lock of migrations, and the other migrates.
    database = await openDatabase(url, 2)
    return await use(database)
  } catch (error) {
    if (!isDatabaseAway(error)) throw error
    const why = error instanceof Error && error.message ? `: ${error.message}` : ''
    throw new Failure(EXIT.unreachable, `cannot reach the database at ${new URL(url).host}${why}`)
  } finally {
    await database?.close()
  }
}
