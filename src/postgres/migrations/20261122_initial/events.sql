-- `xid` comes before `seq`: a row gets its transaction id first, so a transaction that has none yet will
-- only write higher numbers (see sequence_events).
create table outbox (
  xid xid8 not null default pg_current_xact_id(),
  seq bigint primary key generated always as identity,
  event_id text collate "C" not null,
  business_id text not null,
  "kind" text not null,
  occurred_at timestamptz(3) not null,
  payload bytea not null,
  subject_id text,
  live boolean not null,
  pending_minor bigint not null default 0,
  available_minor bigint not null default 0,
  fees_minor bigint not null default 0,
  nets_zero boolean not null default false,
  constraint outbox_payment check (case kind when 'PAYMENT_NOTIFICATION' then pending_minor >= 0 when
    'PAYMENT_ACCEPTED' then pending_minor > 0 when 'SHARE_SETTLED' then (pending_minor = 0 and available_minor
    > 0 and fees_minor = 0) when 'SHARE_REVERSED' then (pending_minor = 0 and available_minor < 0 and
    fees_minor = 0) else true end)
) partition by range (seq);
create index outbox_xid_index on outbox (xid);

-- Rows are never updated. A vacuum of each 100,000 new rows finds their pages in memory, and freezes them for
-- good: without freeze_min_age they would be read and written again long after.
create table outbox_rest partition of outbox for values from (minvalue) to (maxvalue) with (
  autovacuum_vacuum_insert_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_freeze_min_age=0,
  autovacuum_analyze_threshold=100000, autovacuum_analyze_scale_factor=0);

create table event_epoch (
  epoch int primary key,
  start_position bigint not null,
  started_at timestamptz(3) not null
);

-- One row for each tick that did something; the newest is the state (view sequencer). It deletes the one
-- before, so the newest is found at once, however many deleted rows an old snapshot keeps. At a thousand ticks
-- a second, 10,000 deleted rows are 2 MB.
create table sequencer_tick (
  tick bigint primary key,
  epoch int not null,
  "position" bigint not null,
  snapshot pg_snapshot not null,
  target pg_snapshot,
  done_seq bigint not null,
  system_identifier bigint not null,
  timeline int not null,
  base_seq bigint not null,
  restored_seq bigint,
  restored_position bigint,
  low_seq bigint not null,
  low_position bigint not null,
  next_low_seq bigint not null,
  next_low_position bigint not null,
  next_low_xid xid8 not null,
  constraint sequencer_tick_low check (low_seq >= base_seq and next_low_seq >= low_seq),
  constraint sequencer_tick_restored check ((restored_seq is null) = (restored_position is null))
) with ( autovacuum_vacuum_threshold=10000, autovacuum_vacuum_scale_factor=0);

-- Its events up to the floor have expired; those up to `archived` have archived entries.
create table event_retention (
  id int primary key,
  floor bigint not null,
  archived bigint not null,
  next_run_at timestamptz(3) not null,
  constraint event_retention_archived check (archived <= floor),
  constraint event_retention_one_row check (id = 1)
);

create table log_follower (
  name text not null,
  "position" bigint not null,
  epoch int not null,
  set_aside bigint not null default 0,
  primary key (name, "position")
);

-- As sequencer_tick: one row for each tick and business, which deletes the one before, unless that was the last
-- one of a block of 1,024 sequence numbers.
create table event_business_counter (
  business_id text not null,
  live boolean not null,
  last_sequence bigint not null,
  pending_minor numeric(38,0) not null,
  available_minor numeric(38,0) not null,
  fees_minor numeric(38,0) not null,
  primary key (business_id, live, last_sequence)
) with ( autovacuum_vacuum_threshold=10000, autovacuum_vacuum_scale_factor=0);

create table event_log (
  "position" bigint not null,
  outbox_seq bigint not null,
  event_id text collate "C" not null,
  business_id text not null,
  business_sequence bigint not null,
  logged_at timestamptz(3) not null,
  live boolean not null,
  epoch int not null,
  primary key ("position")
) partition by range ("position");

-- As outbox_rest.
create table event_log_rest partition of event_log for values from (minvalue) to (maxvalue) with (
  autovacuum_vacuum_insert_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_freeze_min_age=0,
  autovacuum_analyze_threshold=100000, autovacuum_analyze_scale_factor=0);

-- Unique in each partition: a unique index of the whole table would have to contain the position.
create unique index event_log_rest_business_sequence on event_log_rest (business_id, live, business_sequence);

-- Ids begin with the time, so they follow the positions but for the clocks of the instances. An event is seldom
-- looked up by its id: a summary of each 32 pages costs nothing when an event is recorded, and a look-up some pages.
create index event_log_rest_event_id on event_log_rest using brin (event_id) with (pages_per_range = 32,
  autosummarize = on);

create table archived_entry (
  business_id text not null,
  live boolean not null,
  business_sequence bigint not null,
  "kind" text not null,
  subject_id text not null,
  occurred_at timestamptz(3) not null,
  logged_at timestamptz(3) not null,
  pending_minor bigint not null,
  available_minor bigint not null,
  fees_minor bigint not null,
  primary key (business_id, live, business_sequence)
);

create view money_event as
  select archived_entry.business_id, archived_entry.live, archived_entry.business_sequence, archived_entry.kind,
  archived_entry.subject_id, archived_entry.occurred_at, archived_entry.logged_at, archived_entry.pending_minor,
  archived_entry.available_minor, archived_entry.fees_minor from archived_entry UNION ALL select l.business_id,
  l.live, l.business_sequence, o.kind, o.subject_id, o.occurred_at, l.logged_at, o.pending_minor, o.available_minor,
  o.fees_minor from event_log l JOIN outbox o ON o.seq = l.outbox_seq WHERE (o.pending_minor <> 0 or o.available_minor
    <> 0 or o.fees_minor <> 0 or o.nets_zero) AND l.position > (select archived from event_retention WHERE id = 1);

-- The state of the sequencer: see sequencer_tick.
create view sequencer as select * from sequencer_tick order by tick desc limit 1;

-- Identifies the cluster and the history of its log: a promoted standby begins a timeline of its own. Read from
-- the insert position, as the timeline of the last checkpoint is seconds late.
create function current_cluster(OUT system_identifier bigint, OUT timeline integer) language sql as $$
  select c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
  from pg_control_system() c $$;

-- Begins an epoch at the end of the log. From then on, transaction ids of before are not compared: ticks
-- number whatever was committed until now and has no position, then what commits later. Writers of events
-- wait meanwhile, so that none is in flight; if they do not end in two seconds, nothing changes.
create function bump_event_epoch(OUT new_epoch integer) language plpgsql
  set lock_timeout to '2s' as $$
  declare
    state sequencer_tick%rowtype;
  begin
    perform pg_advisory_xact_lock(4736353);
    lock table only outbox in exclusive mode;
    select * into strict state from sequencer;
    new_epoch := state.epoch + 1;
    state.restored_seq := coalesce(state.restored_seq, state.low_seq);
    state.restored_position := coalesce(state.restored_position, state.low_position);
    select c.system_identifier, c.timeline into state.system_identifier, state.timeline from current_cluster() c;
    state.tick := state.tick + 1;
    state.epoch := new_epoch;
    state.snapshot := pg_current_snapshot();
    state.target := null;
    state.done_seq := 0;
    state.base_seq := coalesce((select max(seq) from outbox), 0);
    state.low_seq := state.base_seq;
    state.low_position := state.position;
    state.next_low_seq := state.base_seq;
    state.next_low_position := state.position;
    state.next_low_xid := pg_current_xact_id();
    insert into sequencer_tick select state.*;
    insert into event_epoch (epoch, start_position, started_at)
      values (new_epoch, state.position, clock_timestamp());
    perform pg_notify('inflow_event_log', state.position::text);
  end $$;
create trigger event_business_counter_append_only before update or truncate on event_business_counter
  for each statement execute function append_only();
create trigger archived_entry_append_only before delete or update or truncate on archived_entry
  for each statement execute function append_only();
create trigger outbox_append_only before delete or update or truncate on outbox
  for each statement execute function append_only();
create trigger event_log_append_only before delete or update or truncate on event_log
  for each statement execute function append_only();
insert into event_epoch (epoch, start_position, started_at) values (1, 0, now());
insert into sequencer_tick (tick, epoch, position, snapshot, done_seq, system_identifier, timeline, base_seq,
    low_seq, low_position, next_low_seq, next_low_position, next_low_xid)
  select 1, 1, 0, pg_current_snapshot(), 0, system_identifier, timeline, 0, 0, 0, 0, 0,
    pg_current_xact_id() from current_cluster();
insert into event_retention (id, floor, archived, next_run_at) values (1, 0, 0, now());
insert into log_follower (name, position, epoch) values ('figures', 0, 1), ('settlement', 0, 1);
