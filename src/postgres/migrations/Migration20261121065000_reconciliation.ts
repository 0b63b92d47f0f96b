import { Migration } from '@mikro-orm/migrations'

/** How far each bank has been searched for payments that its notifications did not report. */
export class Migration20261121065000_reconciliation extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement)
  }
}

const STATEMENTS = [
  `create table "reconciliation_run" (
    "bank" text not null,
    "scope" text not null,
    "in_progress" boolean not null,
    "from_at" timestamptz(3) not null,
    "to_at" timestamptz(3) not null,
    "cursor" text not null,
    "missed" int not null,
    "failures" int not null,
    "next_at" timestamptz(3) not null,
    primary key ("bank", "scope")
  )`,
]
