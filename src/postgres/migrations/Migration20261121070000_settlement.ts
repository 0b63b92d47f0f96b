import { Migration } from '@mikro-orm/migrations'

/**
 * Settlement, and balances: what each event does to the balances of its business stands beside it,
 * and the sequencer adds it up.
 */
export class Migration20261121070000_settlement extends Migration {
  override up(): void {
    for (const statement of [...TABLES, ...BACKFILL, ...SEQUENCER, ...GUARDS])
      this.addSql(statement)
  }
}

const TABLES = [
  // In the order in which a payment takes them, so that neither waits for the other in a circle.
  'lock table "transaction", "ledger_posting", "outbox" in access exclusive mode',
  `alter table "outbox" add column "pending_minor" bigint not null default 0,
    add column "available_minor" bigint not null default 0,
    add column "fees_minor" bigint not null default 0`,
  `alter table "event_business_counter" add column "pending_minor" bigint not null default 0,
    add column "available_minor" bigint not null default 0,
    add column "fees_minor" bigint not null default 0`,
  `create table "archived_entry" (
    "business_id" text not null,
    "live" boolean not null,
    "business_sequence" bigint not null,
    "kind" text not null,
    "subject_id" text not null,
    "occurred_at" timestamptz(3) not null,
    "logged_at" timestamptz(3) not null,
    "pending_minor" bigint not null,
    "available_minor" bigint not null,
    "fees_minor" bigint not null,
    primary key ("business_id", "live", "business_sequence")
  )`,
  `create table "reversal" (
    "transaction_id" text not null,
    "reason" text not null,
    "reversed_at" timestamptz(3) not null,
    primary key ("transaction_id")
  )`,
  `create table "settlement_terms" (
    "business_id" text not null,
    "schedule" text not null,
    "working_days" int not null,
    "cut_off_minutes" int not null,
    "fee_flat_minor" bigint not null,
    "fee_basis_points" int not null,
    "fee_cap_minor" bigint not null,
    "updated_at" timestamptz(3) not null,
    primary key ("business_id")
  )`,
  `alter table "settlement_terms" add constraint "settlement_terms_schedule" check (schedule in ('INSTANT', 'DAILY', 'WORKING_DAYS'))`,
  `alter table "settlement_terms" add constraint "settlement_terms_days" check (working_days >= 0 and working_days <= 30 and (working_days > 0) = (schedule = 'WORKING_DAYS'))`,
  `alter table "settlement_terms" add constraint "settlement_terms_cut_off" check (cut_off_minutes >= 0 and cut_off_minutes < 1440)`,
  `alter table "settlement_terms" add constraint "settlement_terms_fee" check (fee_flat_minor >= 0 and fee_basis_points >= 0 and fee_basis_points <= 10000 and fee_cap_minor >= 0)`,
  `create table "holiday" (
    "day" date not null,
    "name" text not null,
    primary key ("day")
  )`,
  `create table "settlement_request" (
    "id" text not null,
    "business_id" text not null,
    "live" boolean not null,
    "forced" boolean not null,
    "created_at" timestamptz(3) not null,
    "completed_at" timestamptz(3) null,
    primary key ("id")
  )`,
  `create table "settlement" (
    "id" text not null,
    "business_id" text not null,
    "live" boolean not null,
    "request_id" text null,
    "status" text not null,
    "forced" boolean not null,
    "cut_off_at" timestamptz(3) not null,
    "from_sequence" bigint not null,
    "to_sequence" bigint not null,
    "scanned_sequence" bigint not null,
    "fee_flat_minor" bigint not null,
    "fee_basis_points" int not null,
    "fee_cap_minor" bigint not null,
    "transaction_count" bigint not null,
    "gross_minor" bigint not null,
    "fees_minor" bigint not null,
    "books_pending_minor" bigint not null,
    "books_available_minor" bigint not null,
    "books_fees_minor" bigint not null,
    "started_at" timestamptz(3) not null,
    "completed_at" timestamptz(3) null,
    primary key ("id")
  )`,
  `alter table "settlement" add constraint "settlement_business_id_live_to_sequence_unique" unique ("business_id", "live", "to_sequence")`,
  `alter table "settlement" add constraint "settlement_request_id_business_id_unique" unique ("request_id", "business_id")`,
  `create index "settlement_business_id_id_index" on "settlement" ("business_id", "id")`,
  `create unique index settlement_running_unique on "settlement" (business_id, live) where status = 'RUNNING'`,
  `alter table "settlement" add constraint "settlement_status" check (status in ('RUNNING', 'COMPLETED'))`,
  `alter table "settlement" add constraint "settlement_completed" check ((completed_at is not null) = (status = 'COMPLETED') and (status = 'RUNNING' or scanned_sequence = to_sequence))`,
  `alter table "settlement" add constraint "settlement_range" check (from_sequence <= scanned_sequence and scanned_sequence <= to_sequence and from_sequence < to_sequence)`,
  `alter table "settlement" add constraint "settlement_totals" check (transaction_count >= 0 and gross_minor >= 0 and fees_minor >= 0 and fees_minor <= gross_minor)`,
  'alter table "ledger_posting" add column "settlement_id" text null',
  `alter table "reversal" add constraint "reversal_transaction_id_foreign" foreign key ("transaction_id") references "transaction" ("id")`,
  `alter table "settlement_terms" add constraint "settlement_terms_business_id_foreign" foreign key ("business_id") references "business" ("id")`,
  `alter table "settlement" add constraint "settlement_business_id_foreign" foreign key ("business_id") references "business" ("id")`,
  `alter table "settlement" add constraint "settlement_request_id_foreign" foreign key ("request_id") references "settlement_request" ("id")`,
]

/** The tag, length and prefix of a transaction id in the payload of an event. */
const TRANSACTION_ID = `'\\x0a1e74786e5f'::bytea`

const BACKFILL = [
  // The transaction id is the first match in a payload: all fields before it are set by the
  // service.
  `update "outbox" o set subject_id = t.id, pending_minor = t.amount_minor
    from "transaction" t
    where o.kind = 'PAYMENT_NOTIFICATION' and position(${TRANSACTION_ID} in o.payload) > 0
      and t.id = convert_from(
        substring(o.payload from position(${TRANSACTION_ID} in o.payload) + 2 for 30), 'SQL_ASCII')`,
  // Payments whose events retention deleted get archived entries, numbered before the stored
  // events.
  `with deleted as (
      select p.business_id, p.live, p.transaction_id, p.amount_minor, p.created_at,
        row_number() over (partition by p.business_id, p.live order by p.created_at, p.transaction_id) as number,
        count(*) over (partition by p.business_id, p.live) as total
      from "ledger_posting" p
      where p.kind = 'payment' and not exists (
        select from "outbox" o
        where o.kind = 'PAYMENT_NOTIFICATION' and o.subject_id = p.transaction_id)
    ), remaining as (
      select c.business_id, c.live,
        coalesce(min(l.business_sequence), c.last_sequence + 1) as first
      from "event_business_counter" c left join "event_log" l using (business_id, live)
      group by c.business_id, c.live
    )
    insert into "archived_entry" (business_id, live, business_sequence, kind, subject_id, occurred_at,
      logged_at, pending_minor, available_minor, fees_minor)
    select business_id, live, coalesce(k.first, 1) - 1 - total + number, 'PAYMENT_NOTIFICATION',
      transaction_id, created_at, created_at, amount_minor, 0, 0
    from deleted left join remaining k using (business_id, live)`,
  `insert into "event_business_counter" as c (business_id, live, last_sequence, pending_minor)
    select business_id, live, 0, sum(pending_minor) from (
      select business_id, live, pending_minor from "archived_entry"
      union all
      select l.business_id, l.live, o.pending_minor from "event_log" l join "outbox" o on o.seq = l.outbox_seq
    ) line
    group by business_id, live
    on conflict (business_id, live) do update set pending_minor = excluded.pending_minor`,
  // Rejects inserts of an instance of an earlier version that still runs, which has no amounts.
  `alter table "outbox" add constraint "outbox_payment" check (kind <> 'PAYMENT_NOTIFICATION' or pending_minor > 0)`,
  // All changes of the balances of a business in order, including those of deleted events.
  `create view "money_event" as
    select business_id, live, business_sequence, kind, subject_id, occurred_at, logged_at,
      pending_minor, available_minor, fees_minor
    from "archived_entry"
    union all
    select l.business_id, l.live, l.business_sequence, o.kind, o.subject_id, o.occurred_at, l.logged_at,
      o.pending_minor, o.available_minor, o.fees_minor
    from "event_log" l join "outbox" o on o.seq = l.outbox_seq
    where (o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0)`,
]

/** Numbers the `fresh` rows as before, and adds their amounts to the counter of the business. */
const COUNT = `counted as (
      select business_id, live, count(*) as rows, sum(pending_minor)::bigint as pending_minor,
        sum(available_minor)::bigint as available_minor, sum(fees_minor)::bigint as fees_minor
      from fresh group by business_id, live order by business_id, live
    ), counter as (
      insert into event_business_counter as c
        (business_id, live, last_sequence, pending_minor, available_minor, fees_minor)
      select business_id, live, rows, pending_minor, available_minor, fees_minor from counted
      on conflict (business_id, live) do update set
        last_sequence = c.last_sequence + excluded.last_sequence,
        pending_minor = c.pending_minor + excluded.pending_minor,
        available_minor = c.available_minor + excluded.available_minor,
        fees_minor = c.fees_minor + excluded.fees_minor
      returning business_id, live, last_sequence
    ), logged as (
      insert into event_log
        (position, outbox_seq, event_id, business_id, live, business_sequence, logged_at)
      select state.position + row_number() over (order by seq), seq, event_id, business_id, live,
        last_sequence - rows + row_number() over (partition by business_id, live order by seq),
        logging_at
      from fresh join counted using (business_id, live) join counter using (business_id, live)
      returning position, outbox_seq
    )`

const FRESH = 'seq, event_id, business_id, live, pending_minor, available_minor, fees_minor'

/** One log time for all events of a tick, never before that of earlier events. */
const LOGGING_AT = `logging_at := greatest(clock_timestamp(),
      (select logged_at from event_log where position = state.position))`

const SEQUENCER = [
  // One tick of the sequencer: see src/events/sequencer.ts. Each statement of a volatile function
  // has its own snapshot, so the statements after the lock see all commits before it.
  `create or replace function sequence_events(rows_max int, out numbered int, out last_position bigint, out more boolean)
  language plpgsql as $$
  declare
    state sequencer%rowtype;
    upto pg_snapshot;
    last_seq bigint;
    logging_at timestamptz(3);
  begin
    select * into strict state from sequencer where id = 1 for update;
    upto := coalesce(state.target, pg_current_snapshot());
    if pg_snapshot_xmax(state.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) then
      raise exception 'the event log belongs to another database cluster: run "inflow events epoch bump"'
        using errcode = 'object_not_in_prerequisite_state';
    end if;
    ${LOGGING_AT};
    with fresh as (
      select ${FRESH} from (
        select ${FRESH}, xid from outbox
          where xid >= pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)
        union all
        select ${FRESH}, xid from outbox
          where xid = any (array(select pg_snapshot_xip(state.snapshot)))
      ) candidate
      where seq > state.done_seq and pg_visible_in_snapshot(xid, upto)
      order by seq limit rows_max
    ), ${COUNT}
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
  `create or replace function bump_event_epoch(out new_epoch int, out last_position bigint)
  language plpgsql as $$
  declare
    state sequencer%rowtype;
    upto pg_snapshot;
    logging_at timestamptz(3);
  begin
    select * into strict state from sequencer where id = 1 for update;
    upto := pg_current_snapshot();
    ${LOGGING_AT};
    with fresh as (
      select ${FRESH} from outbox o
      where pg_visible_in_snapshot(xid, upto)
        and not exists (select from event_log l where l.event_id = o.event_id)
    ), ${COUNT}
    select coalesce(max(position), state.position) into last_position from logged;
    new_epoch := state.epoch + 1;
    insert into event_epoch (epoch, start_position, started_at)
      values (new_epoch, state.position, clock_timestamp());
    update sequencer set epoch = new_epoch, position = last_position, snapshot = upto,
      target = null, done_seq = 0 where id = 1;
    perform pg_notify('inflow_event_log', last_position::text);
  end $$`,
]

const GUARDS = [
  // The legal postings: see src/transactions/ledger.ts.
  `alter table "ledger_posting" add constraint "ledger_posting_movement" check (case kind
    when 'payment' then credit_account = 'pending' and starts_with(debit_account, 'clearing:') and settlement_id is null
    when 'settlement' then debit_account = 'pending' and credit_account = 'available' and settlement_id is not null
    when 'fee' then debit_account = 'available' and credit_account = 'fees' and settlement_id is not null
    when 'fee_reversal' then debit_account = 'fees' and credit_account = 'available' and settlement_id is null
    when 'settlement_reversal' then debit_account = 'available' and credit_account = 'pending' and settlement_id is null
    when 'payment_reversal' then debit_account = 'pending' and starts_with(credit_account, 'clearing:') and settlement_id is null
    else false end)`,
  // In kobo, half a kobo rounding up; never more than the amount.
  `create function settlement_fee(amount_minor bigint, flat_minor bigint, basis_points int, cap_minor bigint)
  returns bigint language sql immutable as $$
    select least(
      amount_minor,
      case when cap_minor = 0 then amount_minor else cap_minor end,
      (flat_minor + div(amount_minor::numeric * basis_points + 5000, 10000))
    )::bigint
  $$`,
  // Rejects a transition without its postings, which the same statement or an earlier one must have
  // written. It does not check the recording of a payment: "inflow ledger verify" does.
  `create function transaction_posted() returns trigger language plpgsql as $$
  declare
    wrong text;
  begin
    select n.id into wrong
    from after_transition n join before_transition o using (id) cross join lateral (
      select
        coalesce(sum(amount_minor) filter (where kind = 'payment'), 0) as payment,
        coalesce(sum(amount_minor) filter (where kind = 'settlement'), 0) as settlement,
        coalesce(sum(amount_minor) filter (where kind = 'fee'), 0) as fee,
        coalesce(sum(amount_minor) filter (where kind = 'payment_reversal'), 0) as payment_reversal,
        coalesce(sum(amount_minor) filter (where kind = 'settlement_reversal'), 0) as settlement_reversal,
        coalesce(sum(amount_minor) filter (where kind = 'fee_reversal'), 0) as fee_reversal
      from ledger_posting p where p.transaction_id = n.id
    ) posted
    where (n.status, n.settled_at) is distinct from (o.status, o.settled_at) and (
      payment <> case when n.status in ('SUCCESS', 'REVERSED') then n.amount_minor else 0 end
      or settlement <> case when n.settled_at is not null then n.amount_minor else 0 end
      or fee > settlement
      or payment_reversal <> case when n.status = 'REVERSED' then payment else 0 end
      or settlement_reversal <> case when n.status = 'REVERSED' then settlement else 0 end
      or fee_reversal <> case when n.status = 'REVERSED' then fee else 0 end)
    limit 1;
    if found then
      raise exception 'the ledger postings of % do not match its state', wrong
        using errcode = 'integrity_constraint_violation';
    end if;
    return null;
  end $$`,
  `create trigger transaction_posted after update on "transaction"
    referencing new table as after_transition old table as before_transition
    for each statement execute function transaction_posted()`,
  `create function settlement_guard() returns trigger language plpgsql as $$
  begin
    if old.status = 'COMPLETED' then
      raise exception 'a completed settlement is never changed' using errcode = 'integrity_constraint_violation';
    end if;
    if (new.id, new.business_id, new.live, new.request_id, new.forced, new.cut_off_at, new.from_sequence,
        new.to_sequence, new.fee_flat_minor, new.fee_basis_points, new.fee_cap_minor)
      is distinct from (old.id, old.business_id, old.live, old.request_id, old.forced, old.cut_off_at,
        old.from_sequence, old.to_sequence, old.fee_flat_minor, old.fee_basis_points, old.fee_cap_minor)
      or new.scanned_sequence < old.scanned_sequence or new.gross_minor < old.gross_minor
      or new.fees_minor < old.fees_minor or new.transaction_count < old.transaction_count then
      raise exception 'what a settlement is of is fixed when it begins' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$`,
  `create trigger settlement_guard before update on "settlement"
    for each row execute function settlement_guard()`,
  `create trigger settlement_kept before delete or truncate on "settlement"
    for each statement execute function append_only()`,
  `create trigger reversal_append_only before update or delete or truncate on "reversal"
    for each statement execute function append_only()`,
  `create trigger ledger_line_append_only before update or delete or truncate on "archived_entry"
    for each statement execute function append_only()`,
]
