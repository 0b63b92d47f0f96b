import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Migration } from '@mikro-orm/migrations'

/** In this order: a table comes before those that refer to it, and the partitions of all tables come last. */
const FILES = [
  'shared',
  'businesses',
  'auth',
  'audit',
  'crypto',
  'banks',
  'accounts',
  'splits',
  'transactions',
  'ledger',
  'events',
  'sequence_events',
  'settlement',
  'webhooks',
  'figures',
  'partitions',
]

/** The schema of the first release: what the entities state, and what they cannot state. */
export class Migration20261122000000_initial extends Migration {
  override up(): void {
    for (const file of FILES) {
      this.addSql(
        readFileSync(join(import.meta.dirname, '20261122_initial', `${file}.sql`), 'utf8'),
      )
    }
  }
}
