import { Migration } from '@mikro-orm/migrations'
import { MikroORM } from '@mikro-orm/postgresql'
import { onTestFinished } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { MIGRATIONS } from '../../src/postgres/migrations/migrations.ts'
import { type Database, ormConfig } from '../../src/postgres/orm.ts'

export const NEXT = 'Migration20991231000000_next'

/** A migration that needs an exclusive lock. */
class Next extends Migration {
  override up(): void {
    this.addSql('alter table business add column extra int')
  }
}

/** The database as a release with one more migration sees it, until the test ends. */
export async function openNext(
  url: string,
  database: Database,
  worksSince = NEXT,
): Promise<Database> {
  const config = ormConfig(url, ENTITIES, 2)
  const migrationsList = [...MIGRATIONS, { name: NEXT, worksSince, class: Next }]
  const migrations = { ...config.migrations, migrationsList }
  const orm = await MikroORM.init({ ...config, migrations })
  onTestFinished(() => orm.close())
  return { ...database, orm }
}
