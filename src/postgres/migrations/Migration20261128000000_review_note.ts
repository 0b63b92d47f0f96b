import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Migration } from '@mikro-orm/migrations'

/** Assignees and notes of the items of the review. */
export class Migration20261128000000_review_note extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'

  override up(): void {
    this.addSql(readFileSync(join(import.meta.dirname, '20261128_review_note.sql'), 'utf8'))
  }
}
