import { Migration } from '@mikro-orm/migrations'

/** Tables of the live banks: openings with an unknown result, notifications, resolutions. */
export class Migration20261121060000_banks extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement)
  }
}

const STATEMENTS = [
  `create table "bank_notification" (
    "id" text not null,
    "bank" text not null,
    "body_digest" bytea not null,
    "received_at" timestamptz(3) not null,
    "raw_encrypted" bytea not null,
    "bank_key" text not null,
    "state" text not null,
    "outcome" text not null,
    "cause" text not null,
    "tries" int not null,
    "next_try_at" timestamptz(3) null,
    primary key ("id")
  )`,
  `create index "bank_notification_received_at_index" on "bank_notification" ("received_at")`,
  `create index bank_notification_due_index on "bank_notification" (next_try_at) where state = 'PENDING'`,
  `create index bank_notification_manual_review_index on "bank_notification" (id) where state = 'MANUAL_REVIEW'`,
  `alter table "bank_notification" add constraint "bank_notification_bank_body_digest_unique" unique ("bank", "body_digest")`,
  `alter table "bank_notification" add constraint "bank_notification_state" check (state in ('PENDING', 'PROCESSED', 'MANUAL_REVIEW'))`,
  `alter table "bank_notification" add constraint "bank_notification_pending" check ((state = 'PENDING') = (next_try_at is not null))`,
  `create table "bank_payment_key" (
    "bank" text not null,
    "bank_key" text not null,
    "session_id" text not null,
    "created_at" timestamptz(3) not null,
    primary key ("bank", "bank_key")
  )`,
  `alter table "bank_payment_key" add constraint "bank_payment_key_session_id_bank_unique" unique ("session_id", "bank")`,
  // A process that died while asking a bank stored no result: such an account stays CREATING.
  `alter table "account" add "bank_account_id" text not null default '',
    add "opening_state" text not null default 'CREATING',
    add "last_cause" text not null default '',
    add "next_try_at" timestamptz(3) null`,
  `create index account_opening_index on "account" (next_try_at) where status = 'PENDING'`,
  `alter table "account" add constraint "account_opening_state" check (opening_state in ('CREATING', 'RETRYABLE', 'RETRYING', 'REQUERYING', 'MANUAL_REVIEW'))`,
  `alter table "unmatched_payment" add "resolution" text null,
    add "resolved_at" timestamptz(3) null,
    add "note" text not null default '',
    add "transaction_id" text null`,
  `create index unmatched_payment_open_index on "unmatched_payment" (id) where resolution is null`,
  `alter table "unmatched_payment" add constraint "unmatched_payment_resolution" check (resolution in ('ASSIGNED', 'RETURNED'))`,
  `alter table "unmatched_payment" add constraint "unmatched_payment_resolved" check ((resolution is null) = (resolved_at is null))`,
]
