import { Migration } from '@mikro-orm/migrations'

/** The first schema: what the entities say, and below it what they cannot say. */
export class Migration20261121000000_initial extends Migration {
  override up(): void {
    for (const statement of [...TABLES, ...ROWS, ...GUARDS]) this.addSql(statement)
  }
}

const TABLES = [
  `create table "business" (
    "id" text not null,
    "name" text not null,
    "alias" text not null,
    "created_at" timestamptz(3) not null,
    primary key ("id")
  )`,
  `create table "account" (
    "id" text not null,
    "business_id" text not null,
    "reference" text not null,
    "merchant_reference" text not null,
    "bank" text not null,
    "account_number" text null,
    "account_name" text null,
    "status" text not null,
    "first_name" text not null,
    "last_name" text not null,
    "email" text not null,
    "phone" text not null,
    "id_type" text null,
    "id_number_encrypted" bytea null,
    "details_hash" bytea not null,
    "attempts" int not null,
    "claimed_until" timestamptz(3) not null,
    "created_at" timestamptz(3) not null,
    primary key ("id")
  )`,
  `alter table "account" add constraint "account_reference_unique" unique ("reference")`,
  `create index "account_business_id_id_index" on "account" ("business_id", "id")`,
  `alter table "account" add constraint "account_business_id_merchant_reference_unique" unique ("business_id", "merchant_reference")`,
  `alter table "account" add constraint "account_account_number_bank_unique" unique ("account_number", "bank")`,
  `alter table "account" add constraint "account_bank" check (bank in ('9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY'))`,
  `alter table "account" add constraint "account_status" check (status in ('PENDING', 'ACTIVE', 'CLOSED'))`,
  `alter table "account" add constraint "account_number_when_open" check (status = 'PENDING' or (account_number is not null and account_name is not null))`,
  `create table "event_business_counter" (
    "business_id" text not null,
    "last_sequence" bigint not null,
    primary key ("business_id")
  )`,
  `create table "webhook_dispatcher" (
    "id" int not null,
    "position" bigint not null,
    primary key ("id")
  )`,
  `alter table "webhook_dispatcher" add constraint "webhook_dispatcher_one_row" check (id = 1)`,
  `create table "webhook_endpoint" (
    "id" text not null,
    "business_id" text not null,
    "url" text not null,
    "kinds" text[] not null,
    "description" text not null,
    "concurrency" int not null,
    "after_position" bigint not null,
    "created_at" timestamptz(3) not null,
    "failing_since" timestamptz(3) null,
    "warned_at" timestamptz(3) null,
    "disabled_at" timestamptz(3) null,
    "disabled_reason" text null,
    "deleted_at" timestamptz(3) null,
    primary key ("id")
  )`,
  `create index "webhook_endpoint_business_id_id_index" on "webhook_endpoint" ("business_id", "id")`,
  `alter table "webhook_endpoint" add constraint "webhook_endpoint_concurrency" check (concurrency between 1 and 50)`,
  `alter table "webhook_endpoint" add constraint "webhook_endpoint_disabled" check ((disabled_at is null) = (disabled_reason is null) and disabled_reason in ('REQUESTED', 'GONE', 'FAILING'))`,
  `create table "webhook_secret" (
    "endpoint_id" text not null,
    "number" int not null,
    "secret_encrypted" bytea not null,
    "created_at" timestamptz(3) not null,
    "expires_at" timestamptz(3) null,
    primary key ("endpoint_id", "number")
  )`,
  `create table "webhook_delivery" (
    "id" text not null,
    "endpoint_id" text not null,
    "position" bigint not null,
    "state" text not null,
    "attempts" int not null,
    "schedule_from" int not null default 0,
    "due_at" timestamptz(3) not null,
    "fence" int not null,
    "created_at" timestamptz(3) not null,
    "completed_at" timestamptz(3) null,
    "failure" text null,
    primary key ("id")
  )`,
  `create index webhook_delivery_failed_index on "webhook_delivery" (endpoint_id, position) where state = 'FAILED'`,
  `create index webhook_delivery_due_index on "webhook_delivery" (endpoint_id, due_at) where state = 'PENDING'`,
  `alter table "webhook_delivery" add constraint "webhook_delivery_endpoint_id_position_unique" unique ("endpoint_id", "position")`,
  `alter table "webhook_delivery" add constraint "webhook_delivery_state" check (state in ('PENDING', 'DELIVERED', 'FAILED'))`,
  `alter table "webhook_delivery" add constraint "webhook_delivery_completed" check ((completed_at is null) = (state = 'PENDING') and (failure is null) = (state <> 'FAILED'))`,
  `create table "webhook_attempt" (
    "delivery_id" text not null,
    "number" int not null,
    "started_at" timestamptz(3) not null,
    "latency_ms" int not null,
    "status" int null,
    "response_body" text not null,
    "error" text not null,
    primary key ("delivery_id", "number")
  )`,
  `create table "event_log" (
    "position" bigint not null,
    "outbox_seq" bigint not null,
    "event_id" text not null,
    "business_id" text not null,
    "business_sequence" bigint not null,
    "logged_at" timestamptz(3) not null,
    primary key ("position")
  )`,
  `alter table "event_log" add constraint "event_log_event_id_unique" unique ("event_id")`,
  `alter table "event_log" add constraint "event_log_business_id_business_sequence_unique" unique ("business_id", "business_sequence")`,
  `create table "api_key" (
    "id" text not null,
    "business_id" text not null,
    "prefix" text not null,
    "secret_hash" bytea not null,
    "created_at" timestamptz(3) not null,
    "expires_at" timestamptz(3) null,
    "revoked_at" timestamptz(3) null,
    primary key ("id")
  )`,
  `create index "api_key_business_id_index" on "api_key" ("business_id")`,
  `create table "outbox" (
    "seq" bigint generated always as identity not null,
    "event_id" text not null,
    "business_id" text not null,
    "kind" text not null,
    "occurred_at" timestamptz(3) not null,
    "payload" bytea not null,
    "subject_id" text null,
    "xid" xid8 not null default pg_current_xact_id(),
    primary key ("seq")
  )`,
  `create index "outbox_xid_index" on "outbox" ("xid")`,
  `create table "event_epoch" (
    "epoch" int not null,
    "start_position" bigint not null,
    "started_at" timestamptz(3) not null,
    primary key ("epoch")
  )`,
  `create table "sequencer" (
    "id" int not null,
    "epoch" int not null,
    "position" bigint not null,
    "snapshot" pg_snapshot not null,
    "target" pg_snapshot null,
    "done_seq" bigint not null,
    "floor" bigint not null,
    primary key ("id")
  )`,
  `alter table "sequencer" add constraint "sequencer_one_row" check (id = 1)`,
  `create table "transaction" (
    "id" text not null,
    "business_id" text not null,
    "account_id" text not null,
    "bank" text not null,
    "session_id" text not null,
    "amount_minor" bigint not null,
    "status" text not null,
    "settled_at" timestamptz(3) null,
    "paid_at" timestamptz(3) not null,
    "created_at" timestamptz(3) not null,
    "payer_name" text not null,
    "payer_account_number" text not null,
    "payer_bank_code" text not null,
    "payer_bank_name" text not null,
    "narration" text not null,
    primary key ("id")
  )`,
  `create index "transaction_business_id_paid_at_id_index" on "transaction" ("business_id", "paid_at", "id")`,
  `create index "transaction_account_id_paid_at_id_index" on "transaction" ("account_id", "paid_at", "id")`,
  `create index transaction_unsuccessful_index on "transaction" (business_id, status, paid_at, id) where status <> 'SUCCESS'`,
  `alter table "transaction" add constraint "transaction_session_id_bank_unique" unique ("session_id", "bank")`,
  `alter table "transaction" add constraint "transaction_amount" check (amount_minor > 0)`,
  `alter table "transaction" add constraint "transaction_status" check (status in ('PENDING', 'SUCCESS', 'FAILED', 'REVERSED'))`,
  `alter table "transaction" add constraint "transaction_settled" check (settled_at is null or status in ('SUCCESS', 'REVERSED'))`,
  `create table "ledger_posting" (
    "transaction_id" text not null,
    "kind" text not null,
    "business_id" text not null,
    "debit_account" text not null,
    "credit_account" text not null,
    "amount_minor" bigint not null,
    "created_at" timestamptz(3) not null,
    primary key ("transaction_id", "kind")
  )`,
  `alter table "ledger_posting" add constraint "ledger_posting_amount" check (amount_minor > 0)`,
  `alter table "ledger_posting" add constraint "ledger_posting_sides" check (debit_account <> credit_account)`,
  `create table "payment_conflict" (
    "transaction_id" text not null,
    "account_number" text not null,
    "amount_minor" bigint not null,
    "status" text not null,
    "created_at" timestamptz(3) not null,
    primary key ("transaction_id", "account_number", "amount_minor", "status")
  )`,
  `create table "unmatched_payment" (
    "id" text not null,
    "bank" text not null,
    "account_number" text not null,
    "session_id" text not null,
    "amount_minor" bigint not null,
    "status" text not null,
    "paid_at" timestamptz(3) not null,
    "created_at" timestamptz(3) not null,
    "payer_name" text not null,
    "payer_account_number" text not null,
    "payer_bank_code" text not null,
    "payer_bank_name" text not null,
    "narration" text not null,
    primary key ("id")
  )`,
  `alter table "unmatched_payment" add constraint "unmatched_payment_session_id_bank_account_number__f680e_unique" unique ("session_id", "bank", "account_number", "amount_minor", "status")`,
  `alter table "unmatched_payment" add constraint "unmatched_payment_amount" check (amount_minor > 0)`,
  `alter table "account" add constraint "account_business_id_foreign" foreign key ("business_id") references "business" ("id")`,
  `alter table "webhook_endpoint" add constraint "webhook_endpoint_business_id_foreign" foreign key ("business_id") references "business" ("id")`,
  `alter table "webhook_secret" add constraint "webhook_secret_endpoint_id_foreign" foreign key ("endpoint_id") references "webhook_endpoint" ("id")`,
  `alter table "webhook_delivery" add constraint "webhook_delivery_endpoint_id_foreign" foreign key ("endpoint_id") references "webhook_endpoint" ("id")`,
  `alter table "webhook_attempt" add constraint "webhook_attempt_delivery_id_foreign" foreign key ("delivery_id") references "webhook_delivery" ("id")`,
  `alter table "api_key" add constraint "api_key_business_id_foreign" foreign key ("business_id") references "business" ("id")`,
  `alter table "transaction" add constraint "transaction_account_id_foreign" foreign key ("account_id") references "account" ("id")`,
  `alter table "ledger_posting" add constraint "ledger_posting_transaction_id_foreign" foreign key ("transaction_id") references "transaction" ("id")`,
  `alter table "payment_conflict" add constraint "payment_conflict_transaction_id_foreign" foreign key ("transaction_id") references "transaction" ("id")`,
]

const ROWS = [
  // Account serials of the sandbox banks: each instance takes a block of them at a time.
  'create sequence sandbox_serial start 200000000 increment 256 maxvalue 999999999',
  'insert into sequencer (id, epoch, position, snapshot, done_seq, floor) values (1, 1, 0, pg_current_snapshot(), 0, 0)',
  'insert into event_epoch (epoch, start_position, started_at) values (1, 0, now())',
  'insert into webhook_dispatcher (id, position) values (1, 0)',
]

const GUARDS = [
  // One tick of the sequencer: see src/events/sequencer.ts. Each statement of a volatile function
  // has its own snapshot, so the statements after the lock see all commits before it.
  `create function sequence_events(rows_max int, out numbered int, out last_position bigint, out more boolean)
  language plpgsql as $$
  declare
    state sequencer%rowtype;
    upto pg_snapshot;
    last_seq bigint;
  begin
    select * into strict state from sequencer where id = 1 for update;
    upto := coalesce(state.target, pg_current_snapshot());
    if pg_snapshot_xmax(state.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) then
      raise exception 'the event log belongs to another database cluster: run "inflow events epoch bump"'
        using errcode = 'object_not_in_prerequisite_state';
    end if;
    with fresh as (
      select seq, event_id, business_id from (
        select seq, event_id, business_id, xid from outbox
          where xid >= pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)
        union all
        select seq, event_id, business_id, xid from outbox
          where xid = any (array(select pg_snapshot_xip(state.snapshot)))
      ) candidate
      where seq > state.done_seq and pg_visible_in_snapshot(xid, upto)
      order by seq limit rows_max
    ), counted as (
      select business_id, count(*) as rows from fresh group by business_id order by business_id
    ), counter as (
      insert into event_business_counter as c (business_id, last_sequence)
      select business_id, rows from counted
      on conflict (business_id) do update set last_sequence = c.last_sequence + excluded.last_sequence
      returning business_id, last_sequence
    ), logged as (
      insert into event_log (position, outbox_seq, event_id, business_id, business_sequence, logged_at)
      select state.position + row_number() over (order by seq), seq, event_id, business_id,
        last_sequence - rows + row_number() over (partition by business_id order by seq),
        clock_timestamp()
      from fresh join counted using (business_id) join counter using (business_id)
      returning outbox_seq
    )
    select count(*), max(outbox_seq) into numbered, last_seq from logged;
    last_position := state.position + numbered;
    more := numbered = rows_max or state.target is not null;
    if numbered = rows_max then
      -- The snapshot, which is a fixed set of rows, may have more: the next tick continues with it.
      update sequencer set position = last_position, target = upto, done_seq = last_seq where id = 1;
    elsif numbered > 0 or state.target is not null then
      update sequencer set position = last_position, snapshot = upto, target = null, done_seq = 0
        where id = 1;
    end if;
    if numbered > 0 then
      perform pg_notify('inflow_event_log', last_position::text);
    end if;
  end $$`,
  // After a restore: numbers all events that are not in the log, whatever their transaction ids in
  // the source cluster, and discards the snapshots of that cluster.
  `create function bump_event_epoch(out new_epoch int, out last_position bigint)
  language plpgsql as $$
  declare
    state sequencer%rowtype;
    upto pg_snapshot;
  begin
    select * into strict state from sequencer where id = 1 for update;
    upto := pg_current_snapshot();
    with fresh as (
      select seq, event_id, business_id from outbox o
      where pg_visible_in_snapshot(xid, upto)
        and not exists (select from event_log l where l.event_id = o.event_id)
    ), counted as (
      select business_id, count(*) as rows from fresh group by business_id order by business_id
    ), counter as (
      insert into event_business_counter as c (business_id, last_sequence)
      select business_id, rows from counted
      on conflict (business_id) do update set last_sequence = c.last_sequence + excluded.last_sequence
      returning business_id, last_sequence
    ), logged as (
      insert into event_log (position, outbox_seq, event_id, business_id, business_sequence, logged_at)
      select state.position + row_number() over (order by seq), seq, event_id, business_id,
        last_sequence - rows + row_number() over (partition by business_id order by seq),
        clock_timestamp()
      from fresh join counted using (business_id) join counter using (business_id)
      returning position
    )
    select coalesce(max(position), state.position) into last_position from logged;
    new_epoch := state.epoch + 1;
    insert into event_epoch (epoch, start_position, started_at)
      values (new_epoch, state.position, clock_timestamp());
    update sequencer set epoch = new_epoch, position = last_position, snapshot = upto,
      target = null, done_seq = 0 where id = 1;
    perform pg_notify('inflow_event_log', last_position::text);
  end $$`,
  // Enforces the legal transitions of a transaction: see src/transactions/ledger.ts.
  `create function transaction_guard() returns trigger language plpgsql as $$
  begin
    if (new.id, new.business_id, new.account_id, new.bank, new.session_id, new.amount_minor)
      is distinct from (old.id, old.business_id, old.account_id, old.bank, old.session_id, old.amount_minor) then
      raise exception 'a recorded payment cannot be changed' using errcode = 'integrity_constraint_violation';
    end if;
    if new.status <> old.status and not (
      (old.status = 'PENDING' and new.status in ('SUCCESS', 'FAILED'))
      or (old.status = 'SUCCESS' and new.status = 'REVERSED')) then
      raise exception 'a transaction cannot go from % to %', old.status, new.status
        using errcode = 'integrity_constraint_violation';
    end if;
    if old.settled_at is not null and new.settled_at is distinct from old.settled_at then
      raise exception 'a transaction can be settled only once' using errcode = 'integrity_constraint_violation';
    end if;
    if old.settled_at is null and new.settled_at is not null and new.status <> 'SUCCESS' then
      raise exception 'only a successful transaction can be settled' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$`,
  `create trigger transaction_guard before update on "transaction"
    for each row execute function transaction_guard()`,
  `create function append_only() returns trigger language plpgsql as $$
  begin
    raise exception 'rows of % are never changed or removed', tg_table_name
      using errcode = 'integrity_constraint_violation';
  end $$`,
  `create trigger ledger_posting_append_only before update or delete or truncate on ledger_posting
    for each statement execute function append_only()`,
  `create trigger transaction_kept before delete or truncate on "transaction"
    for each statement execute function append_only()`,
]
