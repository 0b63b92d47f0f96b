import { Migration } from '@mikro-orm/migrations'

/**
 * Separates live and test mode for everything that belongs to a business, and adds the allowed
 * addresses and the last use of keys. Existing rows become live mode.
 */
export class Migration20261121010000_live extends Migration {
  override up(): void {
    for (const statement of [...MODES, ...KEYS, ...FUNCTIONS]) this.addSql(statement)
  }
}

/** Tables whose rows are of one mode. */
const TABLES = [
  'account',
  'transaction',
  'ledger_posting',
  'outbox',
  'event_log',
  'event_business_counter',
  'webhook_endpoint',
  'api_key',
]

const MODES = [
  // The default is for the rows that are there; whoever inserts one says what it is.
  ...TABLES.flatMap((table) => [
    `alter table "${table}" add column "live" boolean not null default true`,
    `alter table "${table}" alter column "live" drop default`,
  ]),
  `alter table "account" drop constraint "account_business_id_merchant_reference_unique"`,
  `alter table "account" add constraint "account_business_id_live_merchant_reference_unique" unique ("business_id", "live", "merchant_reference")`,
  `alter table "account" drop constraint "account_account_number_bank_unique"`,
  `alter table "account" add constraint "account_account_number_bank_live_unique" unique ("account_number", "bank", "live")`,
  // A test transfer may use any session id: it must not block a real payment.
  `alter table "transaction" drop constraint "transaction_session_id_bank_unique"`,
  `alter table "transaction" add constraint "transaction_session_id_bank_live_unique" unique ("session_id", "bank", "live")`,
  `drop index "transaction_business_id_paid_at_id_index"`,
  `create index "transaction_business_id_live_paid_at_id_index" on "transaction" ("business_id", "live", "paid_at", "id")`,
  'drop index transaction_unsuccessful_index',
  `create index transaction_unsuccessful_index on "transaction" (business_id, live, status, paid_at, id) where status <> 'SUCCESS'`,
  `alter table "event_business_counter" drop constraint "event_business_counter_pkey"`,
  `alter table "event_business_counter" add primary key ("business_id", "live")`,
  `alter table "event_log" drop constraint "event_log_business_id_business_sequence_unique"`,
  `alter table "event_log" add constraint "event_log_business_id_live_business_sequence_unique" unique ("business_id", "live", "business_sequence")`,
]

const KEYS = [
  `alter table "api_key" add column "allowed_cidrs" text[] not null default '{}'`,
  `alter table "api_key" alter column "allowed_cidrs" drop default`,
  `alter table "api_key" add column "last_used_at" timestamptz(3) null`,
  `drop index "api_key_business_id_index"`,
  `create index "api_key_business_id_id_index" on "api_key" ("business_id", "id")`,
]

const FUNCTIONS = [
  // One tick of the sequencer: as in the first migration, with one sequence for each mode.
  `create or replace function sequence_events(rows_max int, out numbered int, out last_position bigint, out more boolean)
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
      select seq, event_id, business_id, live from (
        select seq, event_id, business_id, live, xid from outbox
          where xid >= pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)
        union all
        select seq, event_id, business_id, live, xid from outbox
          where xid = any (array(select pg_snapshot_xip(state.snapshot)))
      ) candidate
      where seq > state.done_seq and pg_visible_in_snapshot(xid, upto)
      order by seq limit rows_max
    ), counted as (
      select business_id, live, count(*) as rows from fresh
      group by business_id, live order by business_id, live
    ), counter as (
      insert into event_business_counter as c (business_id, live, last_sequence)
      select business_id, live, rows from counted
      on conflict (business_id, live)
        do update set last_sequence = c.last_sequence + excluded.last_sequence
      returning business_id, live, last_sequence
    ), logged as (
      insert into event_log
        (position, outbox_seq, event_id, business_id, live, business_sequence, logged_at)
      select state.position + row_number() over (order by seq), seq, event_id, business_id, live,
        last_sequence - rows + row_number() over (partition by business_id, live order by seq),
        clock_timestamp()
      from fresh join counted using (business_id, live) join counter using (business_id, live)
      returning outbox_seq
    )
    select count(*), max(outbox_seq) into numbered, last_seq from logged;
    last_position := state.position + numbered;
    more := numbered = rows_max or state.target is not null;
    if numbered = rows_max then
      -- More may be left of the same snapshot, which is a fixed set: go on in it.
      update sequencer set position = last_position, target = upto, done_seq = last_seq where id = 1;
    elsif numbered > 0 or state.target is not null then
      update sequencer set position = last_position, snapshot = upto, target = null, done_seq = 0
        where id = 1;
    end if;
    if numbered > 0 then
      perform pg_notify('inflow_event_log', last_position::text);
    end if;
  end $$`,
  // After a restore: as in the first migration, with a sequence for each mode.
  `create or replace function bump_event_epoch(out new_epoch int, out last_position bigint)
  language plpgsql as $$
  declare
    state sequencer%rowtype;
    upto pg_snapshot;
  begin
    select * into strict state from sequencer where id = 1 for update;
    upto := pg_current_snapshot();
    with fresh as (
      select seq, event_id, business_id, live from outbox o
      where pg_visible_in_snapshot(xid, upto)
        and not exists (select from event_log l where l.event_id = o.event_id)
    ), counted as (
      select business_id, live, count(*) as rows from fresh
      group by business_id, live order by business_id, live
    ), counter as (
      insert into event_business_counter as c (business_id, live, last_sequence)
      select business_id, live, rows from counted
      on conflict (business_id, live)
        do update set last_sequence = c.last_sequence + excluded.last_sequence
      returning business_id, live, last_sequence
    ), logged as (
      insert into event_log
        (position, outbox_seq, event_id, business_id, live, business_sequence, logged_at)
      select state.position + row_number() over (order by seq), seq, event_id, business_id, live,
        last_sequence - rows + row_number() over (partition by business_id, live order by seq),
        clock_timestamp()
      from fresh join counted using (business_id, live) join counter using (business_id, live)
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
  // The legal moves of a transaction, whoever asks; its mode is among what never changes.
  `create or replace function transaction_guard() returns trigger language plpgsql as $$
  begin
    if (new.id, new.business_id, new.account_id, new.live, new.bank, new.session_id, new.amount_minor)
      is distinct from (old.id, old.business_id, old.account_id, old.live, old.bank, old.session_id, old.amount_minor) then
      raise exception 'a recorded payment cannot be changed' using errcode = 'integrity_constraint_violation';
    end if;
    if new.status <> old.status and not (
      (old.status = 'PENDING' and new.status in ('SUCCESS', 'FAILED'))
      or (old.status = 'SUCCESS' and new.status = 'REVERSED')) then
      raise exception 'a transaction cannot go from % to %', old.status, new.status
        using errcode = 'integrity_constraint_violation';
    end if;
    if old.settled_at is not null and new.settled_at is distinct from old.settled_at then
      raise exception 'a transaction is settled once' using errcode = 'integrity_constraint_violation';
    end if;
    if old.settled_at is null and new.settled_at is not null and new.status <> 'SUCCESS' then
      raise exception 'only a successful transaction is settled' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$`,
  `create function mode_guard() returns trigger language plpgsql as $$
  begin
    if new.live <> old.live then
      raise exception 'a row of % never changes its mode', tg_table_name
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$`,
  ...['account', 'api_key', 'webhook_endpoint'].map(
    (table) => `create trigger ${table}_mode_guard before update of live on ${table}
      for each row execute function mode_guard()`,
  ),
]
