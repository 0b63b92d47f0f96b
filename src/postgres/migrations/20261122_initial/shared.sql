alter table schema_migration add column works_since text;

-- Refuses changes of rows that are only added.
create function append_only() returns trigger language plpgsql as $$
  begin
    raise exception 'rows of % are never changed or removed', tg_table_name
      using errcode = 'integrity_constraint_violation';
  end $$;

-- A row never changes its mode.
create function mode_guard() returns trigger language plpgsql as $$
  begin
    if new.live <> old.live then
      raise exception 'a row of % never changes its mode', tg_table_name
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
