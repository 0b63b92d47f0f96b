-- The partitions of a table; one without a lower or upper bound has null there.
create function list_partitions(parent text, OUT name text, OUT lower text, OUT upper text)
  returns setof record language sql stable as $$
  select c.relname, substring(b.bound from 'FROM [(]''([^'']*)''[)]'), substring(b.bound from 'TO [(]''([^'']*)''[)]')
  from pg_inherits i join pg_class c on c.oid = i.inhrelid,
    lateral (select pg_get_expr(c.relpartbound, c.oid) as bound) b
  where i.inhparent = to_regclass(parent) $$;

-- Whether the rows of a partition are no longer needed. Tables that are not named here are neither cut nor
-- dropped by the functions below. It is asked twice, the second time under a lock that keeps writers out: what
-- cannot have changed need not be read again.
--
-- The outbox is dropped first, an event log only when it has none of its rows: a numbered event always has its
-- number, or a restore would number it again. For the same reason the last event stays.
create function is_disposable(parent text, upper text, is_locked boolean) returns boolean language plpgsql as $$
  declare
    before bigint;
    archived_to bigint;
    numbered sequencer_tick%rowtype;
    first_seq bigint;
  begin
    select archived into strict archived_to from event_retention where id = 1;
    case parent
      when 'outbox' then
        before := upper;
        -- A tick that numbered all that its snapshot sees, all of which is archived.
        select * into numbered from sequencer_tick where position <= archived_to and target is null
          and restored_seq is null order by tick desc limit 1;
        return found and before <= coalesce((select max(seq) from outbox), 0) and not exists (select from outbox
          where seq < before and seq > numbered.base_seq and xid >= pg_snapshot_xmin(numbered.snapshot)
            and not pg_visible_in_snapshot(xid, numbered.snapshot));
      when 'event_log' then
        before := upper;
        if is_locked then return true; end if;
        select min(coalesce(p.lower, '0')::bigint) into first_seq from list_partitions('outbox') p;
        if before > archived_to + 1 or before > (select position from sequencer)
            or (select outbox_seq >= first_seq from event_log where position = before - 1) then
          return false;
        end if;
        return not exists (select from event_log where position < before and outbox_seq >= first_seq);
      -- No more rows come before the dispatcher's position.
      when 'webhook_delivery' then return upper::bigint <= 1 + (select max(position) from webhook_dispatcher);
      when 'webhook_attempt' then return not exists (select from list_partitions('webhook_delivery') d
        where d.lower is null or d.lower::bigint < is_disposable.upper::bigint);
      when 'transaction' then return false;
      when 'ledger_posting' then return false;
      else raise exception '% is not a table whose partitions are cut', parent using errcode = 'invalid_parameter_value';
    end case;
  end $$;

-- The service may cut and drop partitions although it owns no table: they run as the owner. They are for
-- roles that may insert into the table.
create function check_partition_caller(parent text) returns void language plpgsql as $$
  begin
    perform is_disposable(parent, null, false);
    if not has_table_privilege(session_user, parent, 'insert') then
      raise exception 'permission denied for table %', parent using errcode = 'insufficient_privilege';
    end if;
  end $$;

-- Takes all rights on a partition from other roles: through it they would evade the triggers of its parent.
create function protect_partition(part regclass) returns void language plpgsql as $$
  declare
    grantee oid;
  begin
    for grantee in select distinct a.grantee from pg_class c, aclexplode(c.relacl) a
        where c.oid = part and a.grantee <> c.relowner loop
      execute format('revoke all on %s from %s', part,
        case when grantee = 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end);
    end loop;
  end $$;

-- Ends the last partition of a table, <parent>_rest, at a boundary; it becomes <parent>_<suffix>, and what
-- follows goes to a new <parent>_rest, which gets its indexes and storage parameters. False: another instance
-- is at it, or it was done. Inserts queue behind the wait for the lock, so it is short.
create function cut_partition(parent text, boundary text, suffix text) returns boolean
  language plpgsql security definer set search_path to public, pg_temp set lock_timeout to '200ms' as $$
  declare
    rest text := parent || '_rest';
    part text := parent || '_' || suffix;
    first_key text;
    is_number boolean;
    options text;
  begin
    perform check_partition_caller(parent);
    if suffix !~ '^[0-9][0-9_]*$' then
      raise exception 'not the suffix of a partition: %', suffix using errcode = 'invalid_parameter_value';
    end if;
    if not pg_try_advisory_xact_lock(4736352, 1) then
      return false;
    end if;
    execute format('lock table only %I in access exclusive mode', parent);
    select p.lower into strict first_key from list_partitions(parent) p where p.name = rest;
    select a.atttypid = 'bigint'::regtype into strict is_number
      from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
      where p.partrelid = to_regclass(parent);
    if is_number then
      if boundary::bigint <= first_key::bigint then return false; end if;
    elsif boundary collate "C" <= first_key collate "C" then
      return false;
    end if;
    select ' with (' || array_to_string(reloptions, ', ') || ')' into options
      from pg_class where oid = to_regclass(rest) and reloptions is not null;
    execute format('alter table %I detach partition %I', parent, rest);
    execute format('alter table %I rename to %I', rest, part);
    execute format('create table %I (like %I including all excluding identity)', rest, part) || coalesce(options, '');
    execute format('alter table %I attach partition %I for values from (%s) to (%L)',
      parent, part, coalesce(quote_literal(first_key), 'minvalue'), boundary);
    execute format('alter table %I attach partition %I for values from (%L) to (maxvalue)', parent, rest, boundary);
    perform protect_partition(to_regclass(rest));
    return true;
  end $$;

-- Drops a partition that is no longer needed. False: it is needed, or another instance is at it.
create function drop_partition(parent text, part text) returns boolean
  language plpgsql security definer set search_path to public, pg_temp set lock_timeout to '200ms' as $$
  declare
    upper_bound text;
  begin
    perform check_partition_caller(parent);
    if not pg_try_advisory_xact_lock(4736352, 1) then
      raise exception 'another instance cuts or drops a partition' using errcode = 'lock_not_available';
    end if;
    select p.upper into upper_bound from list_partitions(parent) p where p.name = part;
    if upper_bound is null or is_disposable(parent, upper_bound, false) is not true then
      return false;
    end if;
    execute format('lock table only %I in access exclusive mode', parent);
    if is_disposable(parent, upper_bound, true) is not true then
      return false;
    end if;
    execute format('drop table %I', part);
    return true;
  end $$;

select protect_partition(inhrelid::regclass) from pg_inherits join pg_class on oid = inhrelid where relkind = 'r';
