import type { Command } from 'commander'
import { withEnvFile } from '../../config/env-file.ts'
import { missingDatabase } from '../../config/start-settings.ts'
import { migrate as migrateUp, readMigrations } from '../../postgres/migrate.ts'
import { EXIT, Failure, jsonText, note, print, table } from '../output.ts'
import { addVerbs, local } from '../verb.ts'
import { ENV_FILE, type EnvFileOption, environmentOf, openEnvFile } from './config.ts'
import { withDatabase } from './open-database.ts'

interface Options extends EnvFileOption {
  readonly json?: boolean
}

const MIGRATE_HELP = `
  up: update the schema of DATABASE_URL, else of the embedded database
  ${ENV_FILE}
  --json  print one JSON document: {"applied": [names]}
  Example: migrate up

  status: show which migrations were applied; exits with 1 if any is pending
  ${ENV_FILE}
  --json  print one JSON document: {"migrations": [{name, appliedAt}]}
  Example: migrate status`

export function migrate(noun: Command): void {
  addVerbs(noun, MIGRATE_HELP, { up: local(up), status: local(status) })
}

async function up(options: Options): Promise<void> {
  const file = openEnvFile(options)
  const missing = missingDatabase(process.env, file)
  if (missing !== undefined) throw new Failure(EXIT.usage, missing)
  const applied = await withDatabase(withEnvFile(process.env, file), 'create', (database) =>
    migrateUp(database, { onRetry: note }),
  )
  if (options.json) return print(jsonText({ applied }, 2))
  for (const name of applied) print(name)
  note(
    applied.length === 0
      ? 'Nothing to do: the schema is up to date.'
      : `Applied ${applied.length} migrations.`,
  )
}

async function status(options: Options): Promise<void> {
  const found = await withDatabase(environmentOf(options), 'must exist', readMigrations)
  const migrations = found.map(({ name, appliedAt }) => ({
    name,
    /** ISO 8601; null: pending. */
    appliedAt: appliedAt?.toISOString() ?? null,
  }))
  if (options.json) print(jsonText({ migrations }, 2))
  else {
    const text = table(migrations, [
      { title: 'Migration', of: ({ name }) => name },
      { title: 'Applied at', of: ({ appliedAt }) => appliedAt ?? 'pending' },
    ])
    if (text !== '') print(text)
  }
  const pending = migrations.filter(({ appliedAt }) => appliedAt === null).length
  if (pending > 0)
    throw new Failure(EXIT.refused, `${pending} migrations are pending: run \`inflow migrate up\``)
}
