import { Migration } from '@mikro-orm/migrations'

/** Keys that other providers made. */
export class Migration20261125000000_import extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'

  override up(): void {
    this.addSql(`
alter table api_key add column imported boolean not null default false;
create unique index api_key_imported_index on api_key (secret_hash) where imported;
`)
  }
}
