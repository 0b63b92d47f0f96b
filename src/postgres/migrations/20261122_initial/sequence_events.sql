-- One tick of the sequencer: see src/events/sequencer.ts. Each statement of a volatile function has its
-- own snapshot, so what is read after the lock is newer than the lock. New rows are found by their transaction, the rest of a large
-- backlog by its number; a condition on both would read the index of numbers from its beginning.
--
-- The events of a business are gathered in arrays and taken apart again, so the statement joins nothing and the
-- planner, which expects one row of each step, has no join to choose. Sequential scans are off because its plans are
-- kept: one that was made while the outbox was small would read all of it later. That raises the estimated costs beyond
-- those from which JIT compiles, hence jit is off here too, for servers behind a pooler.
--
-- Only partitions with rows after `low_seq` are read. A row gets its transaction's id before its number, so a
-- transaction that had no id at some time only writes higher numbers than the last one of that time.
-- `next_low_seq` is the last number before a tick got its own id, `next_low_xid`: once that and all earlier
-- transactions have ended, and their rows are numbered, no row up to `next_low_seq` can appear any more. (The
-- end of a snapshot would not do: transactions beyond it may have their ids already.) Rows after it have positions
-- after those of before that tick: `next_low_position`, then `low_position`.
--
-- Its plans are kept: PostgreSQL would make new ones for each tick, which takes longer than to run them.
create function sequence_events(
  rows_max integer, OUT numbered integer, OUT last_position bigint, OUT more boolean, OUT began_epoch integer)
  returns record language plpgsql
  set enable_seqscan to 'off' set jit to 'off' set plan_cache_mode to 'force_generic_plan' as $$
  declare
    state sequencer_tick%rowtype;
    cluster record;
    upto pg_snapshot;
    upto_seq bigint;
    own_xid xid8;
    last_seq bigint;
    logging_at timestamptz(3);
  begin
    numbered := 0;
    more := false;
    select * into strict cluster from current_cluster();
    select * into strict state from sequencer;
    last_position := state.position;
    -- Without work, a tick takes no lock and writes nothing.
    if state.target is null and state.restored_seq is null
      and (state.system_identifier, state.timeline) = (cluster.system_identifier, cluster.timeline)
      and not exists (select from outbox where xid >= pg_snapshot_xmax(state.snapshot)
        and xid < pg_snapshot_xmax(pg_current_snapshot()) and seq > state.low_seq)
      and not exists (select from outbox where xid = any (array(select pg_snapshot_xip(state.snapshot)))
        and seq > state.low_seq) then
      return;
    end if;
    if not pg_try_advisory_xact_lock(4736353) then
      more := null;
      return;
    end if;
    select * into strict state from sequencer;
    if state.system_identifier <> cluster.system_identifier then
      began_epoch := bump_event_epoch();
      select * into strict state from sequencer;
    elsif state.timeline <> cluster.timeline then
      state.epoch := state.epoch + 1;
      state.timeline := cluster.timeline;
      insert into event_epoch (epoch, start_position, started_at)
        values (state.epoch, state.position, clock_timestamp());
      began_epoch := state.epoch;
    end if;
    -- Before the id.
    upto_seq := coalesce(pg_sequence_last_value('outbox_seq_seq'), 0);
    own_xid := pg_current_xact_id();
    upto := coalesce(state.target, pg_current_snapshot());
    logging_at := greatest(clock_timestamp(),
      (select logged_at from event_log where position = state.position));
    with fresh as materialized (
      (select seq, event_id, business_id, live, pending_minor, available_minor, fees_minor from (
        select seq, event_id, business_id, live, pending_minor, available_minor, fees_minor, xid from outbox
          where xid >= pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto) and seq > state.low_seq
        union all
        select seq, event_id, business_id, live, pending_minor, available_minor, fees_minor, xid from outbox
          where xid = any (array(select pg_snapshot_xip(state.snapshot))) and seq > state.low_seq
      ) candidate
      where state.target is null and state.restored_seq is null
        and pg_visible_in_snapshot(xid, upto)
      order by seq limit rows_max)
      union all
      -- The rest of the target snapshot, after the last row of the previous batch.
      (select seq, event_id, business_id, live, pending_minor, available_minor, fees_minor from outbox
      where state.target is not null and seq > greatest(state.done_seq, state.low_seq)
        and pg_visible_in_snapshot(xid, upto) and not pg_visible_in_snapshot(xid, state.snapshot)
      order by seq limit rows_max)
      union all
      -- After a restore: what may lack a position, whatever its transaction id says.
      (select seq, event_id, business_id, live, pending_minor, available_minor, fees_minor from outbox
      where state.restored_seq is not null and seq > state.restored_seq and seq <= state.base_seq
        and not exists (select from event_log l where l.position > state.restored_position and l.outbox_seq = seq)
      order by seq limit rows_max)
    ), added as (
      select business_id, live, count(*) as events, sum(pending_minor) as pending_minor,
        sum(available_minor) as available_minor, sum(fees_minor) as fees_minor,
        array_agg(seq order by seq) as seqs, array_agg(event_id order by seq) as event_ids
      from fresh group by business_id, live
    ), counter as materialized (
      select a.business_id, a.live, c.ctid as replaced, coalesce(c.last_sequence, 0) as last_sequence, a.events,
        coalesce(c.pending_minor, 0) + a.pending_minor as pending_minor,
        coalesce(c.available_minor, 0) + a.available_minor as available_minor,
        coalesce(c.fees_minor, 0) + a.fees_minor as fees_minor, a.seqs, a.event_ids
      from added a left join lateral (
        select b.ctid, b.* from event_business_counter b where b.business_id = a.business_id and b.live = a.live
        order by b.last_sequence desc limit 1) c on true
    ), counted as (
      insert into event_business_counter
        (business_id, live, last_sequence, pending_minor, available_minor, fees_minor)
      select business_id, live, last_sequence + events, pending_minor, available_minor, fees_minor from counter
    ), replaced as (
      delete from event_business_counter where ctid = any (array(
        select replaced from counter where last_sequence >> 10 = (last_sequence + events) >> 10))
    ), logged as (
      insert into event_log
        (position, outbox_seq, event_id, business_id, live, business_sequence, logged_at, epoch)
      select state.position + row_number() over (order by e.seq), e.seq, e.event_id, c.business_id, c.live,
        c.last_sequence + e.number, logging_at, state.epoch
      from counter c cross join lateral unnest(c.seqs, c.event_ids) with ordinality as e(seq, event_id, number)
      returning position, outbox_seq
    )
    select count(*), max(outbox_seq) into numbered, last_seq from logged;
    last_position := state.position + numbered;
    more := numbered = rows_max or state.target is not null or state.restored_seq is not null;
    if state.restored_seq is not null then
      if numbered < rows_max then
        state.restored_seq := null;
        state.restored_position := null;
      end if;
    elsif numbered = rows_max then
      -- The snapshot, which is a fixed set of rows, may have more: the next tick continues with it.
      state.target := upto;
      state.done_seq := last_seq;
    elsif numbered > 0 or state.target is not null then
      if state.target is null and pg_snapshot_xmin(upto) > state.next_low_xid then
        state.low_seq := state.next_low_seq;
        state.low_position := state.next_low_position;
        state.next_low_seq := upto_seq;
        state.next_low_position := state.position;
        state.next_low_xid := own_xid;
      end if;
      state.snapshot := upto;
      state.target := null;
      state.done_seq := 0;
    elsif began_epoch is null then
      return;
    end if;
    state.tick := state.tick + 1;
    state.position := last_position;
    insert into sequencer_tick select state.*;
    delete from sequencer_tick where tick = state.tick - 1 and position >> 16 = state.position >> 16;
    if numbered > 0 or began_epoch is not null then
      perform pg_notify('inflow_event_log', last_position::text);
    end if;
  end $$;
