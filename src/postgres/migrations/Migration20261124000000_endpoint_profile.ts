import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Migration } from '@mikro-orm/migrations'

/** Profiles of webhook endpoints. Those that exist have none, and their requests keep the headers of both. */
export class Migration20261124000000_endpoint_profile extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'

  override up(): void {
    this.addSql(readFileSync(join(import.meta.dirname, '20261124_endpoint_profile.sql'), 'utf8'))
  }
}
