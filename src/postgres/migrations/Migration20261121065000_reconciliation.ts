import { Migration } from '@mikro-orm/migrations'

/** How far each bank has been asked for payments that its notifications did not tell of. */
export class Migration20261121065000_reconciliation extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement)
  }
}

const STATEMENTS = [
  `create table "reconciliation_pass" (
    "bank" text not null,
    "scope" text not null,
    "under_way" boolean not null,
    "from_at" timestamptz(3) not null,
    "to_at" timestamptz(3) not null,
    "place" text not null,
    "missed" int not null,
    "failures" int not null,
    "next_at" timestamptz(3) not null,
    primary key ("bank", "scope")
  )`,
]
