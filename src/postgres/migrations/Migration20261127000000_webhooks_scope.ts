import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Migration } from '@mikro-orm/migrations'

/** The scope `webhooks:write` of tokens and portal links. */
export class Migration20261127000000_webhooks_scope extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'

  override up(): void {
    this.addSql(readFileSync(join(import.meta.dirname, '20261127_webhooks_scope.sql'), 'utf8'))
  }
}
