import { Migration } from '@mikro-orm/migrations'

/** Every identity number has its search hash, so there is nothing left to look for. */
export class Migration20261126000000_identity_hash extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'

  override up(): void {
    this.addSql(`
drop index account_unhashed_index;
alter table account add constraint account_id_number_hash
  check (id_number_encrypted is null or id_number_hash is not null) not valid;
alter table account validate constraint account_id_number_hash;
`)
  }
}
