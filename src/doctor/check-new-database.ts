import { leavesWorking, readMigrations } from '../postgres/migrate.ts'
import type { Database } from '../postgres/orm.ts'
import { checkServerSettings } from './check-database.ts'
import { createFindings, type Finding } from './finding.ts'

/** A database that a first start is about to use. */
export interface NewDatabase {
  readonly findings: readonly Finding[]
  /** Names of the migrations that it lacks. */
  readonly pending: readonly string[]
  /** Whether this role may run them. */
  readonly mayMigrate: boolean
  readonly role: string
}

interface Row {
  readonly role: string
  readonly encoding: string
  /** Null: the role may use no schema of its search path. */
  readonly schema: string | null
  readonly tables: number
  readonly may_create: boolean
  /** Null: there are no tables. */
  readonly owns: boolean | null
  /** Some tables accept changes by functions only. */
  readonly may_write: boolean | null
}

const READ = `with tables as (
      select oid, relowner from pg_class
        where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
    )
  select current_user as role, current_setting('server_encoding') as encoding,
    current_schema() as schema,
    (select count(*)::int from tables) as tables,
    coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
    (select bool_and(pg_has_role(relowner, 'usage')) from tables) as owns,
    (select bool_or(has_table_privilege(oid, 'insert')) from tables) as may_write`

/** Checks whether a first start can use the database: server, durability, encoding, content and rights. */
export async function checkNewDatabase(database: Database): Promise<NewDatabase> {
  const findings = createFindings('Database')
  const server = await checkServerSettings(database)
  const { rows } = await database.durablePool.query<Row>(READ)
  const { role, encoding, schema, tables, may_create, owns, may_write } = rows[0] as Row
  if (schema === null) {
    const advice = `grant usage, create on schema public to ${role}`
    findings.fail(`the role ${role} may use no schema of this database`, advice)
    return { findings: [...server, ...findings.all], pending: [], mayMigrate: false, role }
  }
  if (encoding === 'UTF8') findings.ok('texts are stored as UTF-8')
  else {
    findings.fail(
      `the encoding of the database is ${encoding}: names of customers would be refused`,
      "create it anew: create database … encoding 'UTF8' template template0",
    )
  }
  const migrations = await readMigrations(database)
  const applied = migrations.filter(({ appliedAt }) => appliedAt !== undefined)
  const pending = migrations.filter(({ appliedAt }) => appliedAt === undefined)
  if (applied.length === 0 && tables > 0) {
    findings.fail(
      `the schema ${schema} has ${tables} tables that are not of Inflow`,
      'use a database of its own',
    )
  } else if (applied.length === 0) findings.ok('the database is empty')
  else if (applied.some((each) => !each.known && !leavesWorking(each, migrations))) {
    findings.fail('the schema is newer than this version of Inflow', 'use the newer version')
  } else findings.ok('the database is one of Inflow')
  if (may_write === false) {
    const advice = 'grant them: see "Two database roles" in operations.md'
    findings.fail(`the role ${role} may not write to the tables`, advice)
  }
  return {
    findings: [...server, ...findings.all],
    pending: pending.map(({ name }) => name),
    mayMigrate: owns ?? may_create,
    role,
  }
}
