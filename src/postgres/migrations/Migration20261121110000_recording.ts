import { Migration } from '@mikro-orm/migrations'

/**
 * Makes recording cheaper: references are checked once for each statement, and a tick of the
 * sequencer uses no nested loops. Supports a restore into a cluster with lower transaction ids.
 */
export class Migration20261121110000_recording extends Migration {
  override up(): void {
    for (const statement of [...PARENTS, ...COUNTERS, ...SEQUENCER]) this.addSql(statement)
  }
}

const PARENTS = [
  // A foreign key looks up, locks and rewrites the parent for each row. The parents never change
  // their ids, and are not deleted once they may have rows, so checking at insert is enough.
  `create function account_id_guard() returns trigger language plpgsql as $$
  begin
    if new.id <> old.id then
      raise exception 'the id of an account cannot change' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$`,
  `create trigger account_id_guard before update of id on "account"
    for each row execute function account_id_guard()`,
  // Only an account that its bank never opened may be deleted; it has no payments.
  `create function account_delete_guard() returns trigger language plpgsql as $$
  begin
    if old.status <> 'PENDING' or exists (select from transaction where account_id = old.id) then
      raise exception 'an account that was ever open cannot be deleted' using errcode = 'integrity_constraint_violation';
    end if;
    return old;
  end $$`,
  `create trigger account_delete_guard before delete on "account"
    for each row execute function account_delete_guard()`,
  `create trigger account_not_truncated before truncate on "account"
    for each statement execute function append_only()`,
  // OFFSET forces look-ups by index: a transition table has no statistics for the planner.
  `create function transaction_account_guard() returns trigger language plpgsql as $$
  declare
    orphan text;
  begin
    select t.id into orphan
    from added t left join lateral
      (select true as found from account a where a.id = t.account_id offset 0) parent on true
    where parent.found is null limit 1;
    if found then
      raise exception 'the account of % does not exist', orphan using errcode = 'foreign_key_violation';
    end if;
    return null;
  end $$`,
  `create trigger transaction_account_guard after insert on "transaction"
    referencing new table as added for each statement execute function transaction_account_guard()`,
  `create function posting_transaction_guard() returns trigger language plpgsql as $$
  declare
    orphan text;
  begin
    select p.transaction_id into orphan
    from added p left join lateral
      (select true as found from transaction t where t.id = p.transaction_id offset 0) parent on true
    where parent.found is null limit 1;
    if found then
      raise exception 'the transaction % of a posting does not exist', orphan
        using errcode = 'foreign_key_violation';
    end if;
    return null;
  end $$`,
  `create trigger posting_transaction_guard after insert on "ledger_posting"
    referencing new table as added for each statement execute function posting_transaction_guard()`,
  `alter table "transaction" drop constraint "transaction_account_id_foreign"`,
  `alter table "ledger_posting" drop constraint "ledger_posting_transaction_id_foreign"`,
]

const COUNTERS = ['pending_minor', 'available_minor', 'fees_minor'].flatMap((column) => [
  // An overflow of one business must not stop the numbering of all. There is no default, so that a
  // tick of an instance of an earlier version fails instead of adding nothing.
  `alter table "event_business_counter" alter column "${column}" type numeric(38,0),
    alter column "${column}" drop default`,
  `alter table "balance_snapshot" alter column "${column}" type numeric(38,0)`,
])

/** Numbers the `fresh` rows: updates the counters of businesses, then inserts into the log. */
const NUMBERING = `counter as (
      insert into event_business_counter as c
        (business_id, live, last_sequence, pending_minor, available_minor, fees_minor)
      select business_id, live, count(*), sum(pending_minor), sum(available_minor), sum(fees_minor)
      from fresh group by business_id, live order by business_id, live
      on conflict (business_id, live) do update set
        last_sequence = c.last_sequence + excluded.last_sequence,
        pending_minor = c.pending_minor + excluded.pending_minor,
        available_minor = c.available_minor + excluded.available_minor,
        fees_minor = c.fees_minor + excluded.fees_minor
      returning business_id, live, last_sequence
    ), ordered as (
      select seq, event_id, business_id, live, row_number() over (order by seq) as number,
        row_number() over (partition by business_id, live order by seq desc) as from_last
      from fresh
    ), logged as (
      insert into event_log
        (position, outbox_seq, event_id, business_id, live, business_sequence, logged_at)
      select state.position + number, seq, event_id, business_id, live, last_sequence + 1 - from_last,
        logging_at
      from ordered join counter using (business_id, live)
      returning position, outbox_seq
    )`

const FRESH = 'seq, event_id, business_id, live, pending_minor, available_minor, fees_minor'

/** One log time for all events of a tick, never before that of earlier events. */
const LOGGING_AT = `logging_at := greatest(clock_timestamp(),
      (select logged_at from event_log where position = state.position))`

const SEQUENCER = [
  // One tick of the sequencer: see src/events/sequencer.ts. Each statement of a volatile function
  // has its own snapshot, so the statements after the lock see all commits before it. Nested loops
  // are off, because the planner expects one row from every step and would compare each event with
  // each business. New rows are found by transaction id, and the rest of a large backlog by seq:
  // with a condition on both, the planner would scan the index of seq from its beginning.
  `create or replace function sequence_events(rows_max int, out numbered int, out last_position bigint, out more boolean)
  language plpgsql set enable_nestloop = off as $$
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
    with fresh as materialized (
      (select ${FRESH} from (
        select ${FRESH}, xid from outbox
          where xid >= pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)
        union all
        select ${FRESH}, xid from outbox
          where xid = any (array(select pg_snapshot_xip(state.snapshot)))
      ) candidate
      where state.target is null and pg_visible_in_snapshot(xid, upto)
      order by seq limit rows_max)
      union all
      -- The rest of the target snapshot, after the last row of the previous batch.
      (select ${FRESH} from outbox
      where state.target is not null and seq > state.done_seq
        and pg_visible_in_snapshot(xid, upto) and not pg_visible_in_snapshot(xid, state.snapshot)
      order by seq limit rows_max)
    ), ${NUMBERING}
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
  // After a restore: discards the snapshots of the source cluster and numbers all events that are
  // not in the log, whatever their transaction ids. The table lock blocks payments meanwhile, so
  // that none is in flight. Rows with transaction ids that this cluster has yet to assign get
  // another id.
  `create or replace function bump_event_epoch(out new_epoch int, out last_position bigint)
  language plpgsql set enable_nestloop = off as $$
  declare
    state sequencer%rowtype;
    upto pg_snapshot;
    logging_at timestamptz(3);
  begin
    select * into strict state from sequencer where id = 1 for update;
    lock table outbox in exclusive mode;
    upto := pg_current_snapshot();
    ${LOGGING_AT};
    update outbox set xid = '3' where xid >= pg_snapshot_xmin(upto);
    with fresh as materialized (
      select ${FRESH} from outbox o
      where not exists (select from event_log l where l.event_id = o.event_id)
    ), ${NUMBERING}
    select coalesce(max(position), state.position) into last_position from logged;
    new_epoch := state.epoch + 1;
    insert into event_epoch (epoch, start_position, started_at)
      values (new_epoch, state.position, clock_timestamp());
    update sequencer set epoch = new_epoch, position = last_position, snapshot = upto,
      target = null, done_seq = 0 where id = 1;
    perform pg_notify('inflow_event_log', last_position::text);
  end $$`,
]
