create table audit_head (
  id int primary key,
  "number" bigint not null,
  hash bytea not null,
  mac bytea not null,
  constraint audit_head_one_row check (id = 1)
);

create table audit_mac (
  "number" bigint primary key,
  mac bytea not null
);

create table audit_entry (
  "number" bigint primary key,
  at timestamptz(3) not null,
  actor_kind text not null,
  actor_id text not null,
  actor_name text not null,
  address text not null,
  request_id text not null,
  action text not null,
  target_kind text not null,
  target_id text not null,
  business_id text,
  details text not null,
  previous_hash bytea not null,
  hash bytea not null,
  constraint audit_entry_actor_kind check (actor_kind in ('token', 'secret_key', 'bootstrap', 'system',
    'command_line')),
  constraint audit_entry_business_id check (business_id <> ''),
  constraint audit_entry_details check (octet_length(details) <= 4096)
);
create index audit_entry_action_number_index on audit_entry (action, number);
create index audit_entry_actor_id_number_index on audit_entry (actor_id, number);
create index audit_entry_business_id_number_index on audit_entry (business_id, number);
create index audit_entry_target_id_number_index on audit_entry (target_id, number);

-- One text to hash: its length in bytes comes first, so that no two lists of texts are alike.
create function audit_text(value text) returns text language sql immutable as $$
  select octet_length(convert_to(value, 'UTF8')) || ':' || value || ',' $$;

-- The encoding of src/auth/audit/audit-hash.ts.
create function audit_hash(entry audit_entry) returns bytea language sql immutable as $$
  select sha256(convert_to(
    audit_text('inflow-audit-1') || audit_text(entry.number::text)
      || audit_text((extract(epoch from entry.at) * 1000)::bigint::text)
      || audit_text(entry.actor_kind) || audit_text(entry.actor_id) || audit_text(entry.actor_name)
      || audit_text(entry.address) || audit_text(entry.request_id) || audit_text(entry.action)
      || audit_text(entry.target_kind) || audit_text(entry.target_id)
      || audit_text(coalesce(entry.business_id, '')) || audit_text(entry.details)
      || audit_text(encode(entry.previous_hash, 'hex')),
    'UTF8')) $$;

-- Number, time and hashes are set here: every inserted entry joins the chain.
create function audit_chain() returns trigger language plpgsql as $$
  declare
    head audit_head%rowtype;
  begin
    select * into strict head from audit_head where id = 1 for update;
    new.number := head.number + 1;
    new.at := date_trunc('milliseconds', clock_timestamp());
    new.previous_hash := head.hash;
    new.hash := audit_hash(new);
    update audit_head set number = new.number, hash = new.hash where id = 1;
    return new;
  end $$;

create function audit_head_guard() returns trigger language plpgsql as $$
  begin
    if new.number is distinct from old.number + 1 then
      raise exception 'the audit log grows by one entry at a time'
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;

create trigger audit_entry_append_only before delete or update or truncate on audit_entry
  for each statement execute function append_only();
create trigger audit_entry_chain before insert on audit_entry for each row execute function audit_chain();
create trigger audit_head_guard before update of number, hash on audit_head for each row execute function audit_head_guard();
create trigger audit_mac_kept before delete or truncate on audit_mac
  for each statement execute function append_only();
create trigger audit_head_kept before delete or truncate on audit_head
  for each statement execute function append_only();
insert into audit_head (id, number, hash, mac) values (1, 0, decode(repeat('00', 32), 'hex'), '');
