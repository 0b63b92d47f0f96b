import { Migration } from '@mikro-orm/migrations'

const BUSINESS_RATE_LIMIT =
  'case when rate_limit_per_second is null then rate_limit_burst is null else rate_limit_per_second > 0 and (rate_limit_burst is null or rate_limit_burst > 0 and rate_limit_burst <= 60 * rate_limit_per_second) end'

/** Rate limits of businesses, and the token buckets that all instances share. */
export class Migration20261121040000_limits extends Migration {
  override up(): void {
    this.addSql(`alter table "business" add column "rate_limit_per_second" int null`)
    this.addSql(`alter table "business" add column "rate_limit_burst" int null`)
    this.addSql(
      `alter table "business" add constraint "business_rate_limit_check" check (${BUSINESS_RATE_LIMIT})`,
    )
    // Unlogged: a crash only resets the buckets. Rows are updated often and never grow, so each page
    // keeps free space for HOT updates.
    this.addSql(
      `create unlogged table "rate_bucket" ("name" text not null, "tokens" double precision not null, "per_second" double precision not null, "burst" double precision not null, "at" timestamptz(3) not null, primary key ("name")) with (fillfactor = 50)`,
    )
  }
}
