-- What is imported from another provider: keys, accounts and payments. A payment keeps what it was imported with.
alter table api_key add column imported boolean not null default false;
create unique index api_key_imported_index on api_key (secret_hash) where imported;
alter table account add column imported_at timestamptz(3);
alter table transaction add column imported_settled boolean;
create or replace function transaction_guard() returns trigger language plpgsql as $$
  begin
    if (new.id, new.business_id, new.account_id, new.live, new.bank, new.session_id, new.amount_minor)
      is distinct from (old.id, old.business_id, old.account_id, old.live, old.bank, old.session_id, old.amount_minor)
      or new.imported_settled is distinct from old.imported_settled
      or (old.status <> 'PENDING' and new.recorded_by <> old.recorded_by) then
      raise exception 'a recorded payment cannot be changed' using errcode = 'integrity_constraint_violation';
    end if;
    if new.status <> old.status and (old.imported_settled is not null or not (
      (old.status = 'PENDING' and new.status in ('SUCCESS', 'FAILED'))
      or (old.status = 'SUCCESS' and new.status = 'REVERSED'))) then
      raise exception 'a transaction cannot go from % to %', old.status, new.status
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
