import type { Command } from 'commander'
import { type Database, migrate as migrateUp } from '../../postgres/orm.ts'
import { EXIT, Failure } from '../failure.ts'
import { note, print, table } from '../output.ts'
import { addVerb } from '../verb.ts'
import { withDatabase } from './open-database.ts'

/** A migration, as `status` reports it. */
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
    summary: 'update the schema of DATABASE_URL, else of the embedded database',
    example: 'migrate up',
  })
    .option('--json', 'print one JSON document: {"applied": [names]}')
    .action(up)
  addVerb(noun, 'status', {
    summary: 'show which migrations were applied; exits with 1 if any is pending',
    example: 'migrate status',
  })
    .option('--json', 'print one JSON document: {"migrations": [{name, appliedAt}]}')
    .action(status)
}

async function up(options: JsonOption): Promise<void> {
  const applied = await withDatabase(process.env, 'create', migrateUp)
  if (options.json) return print(JSON.stringify({ applied }, null, 2))
  for (const name of applied) print(name)
  note(
    applied.length === 0
      ? 'Nothing to do: the schema is up to date.'
      : `Applied ${applied.length} migrations.`,
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
  if (pending > 0)
    throw new Failure(EXIT.refused, `${pending} migrations are pending: run \`inflow migrate up\``)
}

async function readMigrations({ orm }: Database): Promise<Migration[]> {
  const executed = await orm.migrator.getExecuted()
  const pending = await orm.migrator.getPending()
  return [
    ...executed.map((row) => ({ name: row.name, appliedAt: row.executed_at.toISOString() })),
    ...pending.map(({ name }) => ({ name, appliedAt: null })),
  ]
}
