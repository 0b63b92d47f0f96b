import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Migration } from '@mikro-orm/migrations'

/** What is imported from another provider: keys, accounts and payments. A payment keeps what it was imported with. */
export class Migration20261125000000_import extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'

  override up(): void {
    this.addSql(readFileSync(join(import.meta.dirname, '20261125_import.sql'), 'utf8'))
  }
}
