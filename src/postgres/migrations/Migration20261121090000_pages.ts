import { Migration } from '@mikro-orm/migrations'

/** Every page of every list costs the same, however much there is. */
export class Migration20261121090000_pages extends Migration {
  override up(): void {
    for (const statement of [...INDEXES, ...BALANCE_SNAPSHOTS]) this.addSql(statement)
  }
}

const INDEXES = [
  // By mode and state, so that what is rare is not looked for among all the rest.
  'drop index "account_business_id_id_index"',
  'create index "account_business_id_live_status_id_index" on "account" ("business_id", "live", "status", "id")',
  'create index "account_live_status_id_index" on "account" ("live", "status", "id")',
  'drop index "settlement_business_id_id_index"',
  'create index "settlement_business_id_live_id_index" on "settlement" ("business_id", "live", "id")',
  'create index "settlement_live_id_index" on "settlement" ("live", "id")',
  'create index "audit_entry_action_number_index" on "audit_entry" ("action", "number")',
  `create index unmatched_payment_open_bank_index on "unmatched_payment" (bank, id) where resolution is null`,
  // A payment that succeeds, as nearly all do, has no entry in it.
  `create index transaction_account_unsuccessful_index on "transaction" (account_id, status, paid_at, id) where status <> 'SUCCESS'`,
]

const BALANCE_SNAPSHOTS = [
  `create table "balance_snapshot" (
    "business_id" text not null,
    "live" boolean not null,
    "business_sequence" bigint not null,
    "pending_minor" bigint not null,
    "available_minor" bigint not null,
    "fees_minor" bigint not null,
    primary key ("business_id", "live", "business_sequence")
  )`,
  `create function balance_snapshot() returns trigger language plpgsql as $$
  begin
    insert into balance_snapshot
      (business_id, live, business_sequence, pending_minor, available_minor, fees_minor)
    values (new.business_id, new.live, new.last_sequence, new.pending_minor, new.available_minor, new.fees_minor)
    on conflict do nothing;
    return null;
  end $$`,
  // The counter of a business holds the sums of all its events. A snapshot of them about every
  // 1,024 events keeps the computation of any past balance short.
  `create trigger balance_snapshot after update on "event_business_counter"
    for each row when (new.last_sequence / 1024 > old.last_sequence / 1024)
    execute function balance_snapshot()`,
  `create trigger balance_snapshot_append_only before update or delete or truncate on "balance_snapshot"
    for each statement execute function append_only()`,
]
