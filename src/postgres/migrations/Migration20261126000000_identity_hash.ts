import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Migration } from '@mikro-orm/migrations'

/** Every identity number has its search hash, so there is nothing left to look for. */
export class Migration20261126000000_identity_hash extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'

  override up(): void {
    this.addSql(readFileSync(join(import.meta.dirname, '20261126_identity_hash.sql'), 'utf8'))
  }
}
