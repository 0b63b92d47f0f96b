import { Migration } from '@mikro-orm/migrations'

/**
 * Cheaper deliveries: a claim changes nothing that an index holds, and the latest attempt is in the
 * row of its delivery, so that one that goes well at once needs no other.
 *
 * An instance of before would mistake what is claimed for due. It is kept from all of it by the new
 * name of `fence`: its dispatcher and its workers fail, and are tried again, until it is replaced.
 * What they had under way is sent again at the end of its lease, which is in `due_at`.
 */
export class Migration20261121100000_webhook_queue extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement)
  }
}

const STATEMENTS = [
  `alter table "webhook_delivery" rename column "fence" to "claims"`,
  `alter table "webhook_delivery"
    add column "leased_until" timestamptz(3) null,
    add column "started_at" timestamptz(3) null,
    add column "latency_ms" int null,
    add column "status" int null,
    add column "answer" text null,
    add column "error" text null`,
  // A claim writes its row anew; where there is room for that in the same page, no index is touched.
  `alter table "webhook_delivery" set (fillfactor = 50)`,
]
