import { Migration } from '@mikro-orm/migrations'

/** The master keys in use and the instances that use them; the hash to find identity numbers by. */
export class Migration20261121030000_identity extends Migration {
  override up(): void {
    this.addSql(`create table "master_key" (
      "id" text not null,
      "known_text" bytea not null,
      "created_at" timestamptz(3) not null,
      primary key ("id")
    )`)
    this.addSql(`create table "master_key_holder" (
      "id" text not null,
      "current_key_id" text not null,
      "known_key_ids" text[] not null,
      "seen_at" timestamptz(3) not null,
      primary key ("id")
    )`)
    this.addSql(`alter table "account" add column "id_number_hash" bytea null`)
    this.addSql(
      `create index account_id_number_hash_index on "account" (id_number_hash) where id_number_hash is not null`,
    )
    this.addSql(
      `create index account_unhashed_index on "account" (id) where id_number_encrypted is not null and id_number_hash is null`,
    )
  }
}
