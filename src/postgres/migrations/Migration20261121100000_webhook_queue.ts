import { Migration } from '@mikro-orm/migrations'

/**
 * Cheaper deliveries: a claim changes no indexed column, and the latest attempt is kept in the row
 * of its delivery, so that a delivery that succeeds at once needs no other row.
 *
 * An instance of an earlier release would take claimed deliveries for due. Renaming `fence`
 * prevents that: its dispatcher and workers fail and retry until it is replaced. Their deliveries
 * in progress are sent again at the end of their lease, which is in `due_at`.
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
    add column "response_body" text null,
    add column "error" text null`,
  // A claim rewrites its row; with free space in the same page, no index is updated (HOT).
  `alter table "webhook_delivery" set (fillfactor = 50)`,
]
