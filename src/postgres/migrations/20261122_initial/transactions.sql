-- Who inserts the row of a session records its payment. In hash partitions, each index stays small enough for the
-- memory. No foreign key: a trigger of transaction checks a statement's rows together. Rows of this and the next
-- tables are only added, so a vacuum every million of them freezes them for good, instead of one that reads all of
-- a large table; by default it waits for a fifth of the table. The pages have no room for updates, as hardly any
-- row is updated; nor have those of the ledger's index for a settlement's postings, as room for them would make
-- the index a quarter larger and save nothing (2 % of the WAL).
create table payment_session (
  session_id text not null,
  bank text not null,
  live boolean not null,
  transaction_id text collate "C" not null,
  primary key (session_id, bank, live)
) partition by hash (session_id);

do $$ begin
  for part in 0..15 loop
    execute format('create table payment_session_%s partition of payment_session
      for values with (modulus 16, remainder %s) with (
      autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=60000, autovacuum_freeze_min_age=0)',
      part, part);
  end loop;
end $$;

-- No foreign keys here and in ledger_posting: they look up, lock and rewrite the parent of each row. Nor any to
-- transaction: a partition that is referred to cannot be detached, and so not be cut.
create table "transaction" (
  id text collate "C" primary key,
  business_id text not null,
  account_id text not null,
  bank text not null,
  session_id text not null,
  amount_minor bigint not null,
  status text not null,
  paid_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  payer_name text not null,
  payer_account_number text not null,
  payer_bank_code text not null,
  payer_bank_name text not null,
  narration text not null,
  live boolean not null,
  recorded_by text not null,
  traceparent text,
  constraint transaction_amount check (amount_minor > 0),
  constraint transaction_status check (status in ('PENDING', 'SUCCESS', 'FAILED', 'REVERSED'))
) partition by range (id);

create table transaction_rest partition of transaction for values from (minvalue) to (maxvalue) with (
  autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=1000000, autovacuum_freeze_min_age=0);
create index transaction_account_id_paid_at_id_index on transaction (account_id, paid_at, id);
create index transaction_account_unsuccessful_index on transaction (account_id, status, paid_at, id) where (status
  <> 'SUCCESS');
create index transaction_business_id_live_paid_at_id_index on transaction (business_id, live, paid_at, id);
create index transaction_test_index on transaction (id) where not live;
create index transaction_unsuccessful_index on transaction (business_id, live, status, paid_at, id) where (status <>
  'SUCCESS');

-- The legal transitions of a transaction: see src/transactions/ledger.ts.
create function transaction_guard() returns trigger language plpgsql as $$
  begin
    if (new.id, new.business_id, new.account_id, new.live, new.bank, new.session_id, new.amount_minor)
      is distinct from (old.id, old.business_id, old.account_id, old.live, old.bank, old.session_id, old.amount_minor)
      or (old.status <> 'PENDING' and new.recorded_by <> old.recorded_by) then
      raise exception 'a recorded payment cannot be changed' using errcode = 'integrity_constraint_violation';
    end if;
    if new.status <> old.status and not (
      (old.status = 'PENDING' and new.status in ('SUCCESS', 'FAILED'))
      or (old.status = 'SUCCESS' and new.status = 'REVERSED')) then
      raise exception 'a transaction cannot go from % to %', old.status, new.status
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
create trigger transaction_guard before update on transaction for each row execute function transaction_guard();
create trigger transaction_kept before delete or truncate on transaction
  for each statement execute function append_only();

create function transaction_account_guard() returns trigger language plpgsql as $$
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
  end $$;

create trigger transaction_account_guard after insert on transaction
  referencing new table as added for each statement execute function transaction_account_guard();

create function transaction_session_guard() returns trigger language plpgsql as $$
  declare
    orphan text;
  begin
    select t.id into orphan
    from added t left join lateral
      (select transaction_id from payment_session s where (s.session_id, s.bank, s.live) = (t.session_id, t.bank, t.live)
        offset 0) parent on true
    where parent.transaction_id is distinct from t.id limit 1;
    if found then
      raise exception 'the session of % is not its own', orphan using errcode = 'integrity_constraint_violation';
    end if;
    return null;
  end $$;

create trigger transaction_session_guard after insert on transaction
  referencing new table as added for each statement execute function transaction_session_guard();
create trigger payment_session_append_only before delete or update or truncate on payment_session
  for each statement execute function append_only();

create table payment_conflict (
  transaction_id text collate "C" not null,
  account_number text not null,
  amount_minor bigint not null,
  status text not null,
  created_at timestamptz(3) not null,
  id text not null,
  resolved_at timestamptz(3),
  note text not null default '',
  constraint payment_conflict_id_unique unique (id),
  primary key (transaction_id, account_number, amount_minor, status)
);
create index payment_conflict_open_index on payment_conflict (id) where resolved_at is null;

create table unmatched_payment (
  id text primary key,
  bank text not null,
  account_number text not null,
  session_id text not null,
  amount_minor bigint not null,
  status text not null,
  paid_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  payer_name text not null,
  payer_account_number text not null,
  payer_bank_code text not null,
  payer_bank_name text not null,
  narration text not null,
  resolution text,
  resolved_at timestamptz(3),
  note text not null default '',
  transaction_id text,
  constraint unmatched_payment_session_id_bank_account_number__f680e_unique unique (session_id, bank,
    account_number, amount_minor, status),
  constraint unmatched_payment_amount check (amount_minor > 0),
  constraint unmatched_payment_resolution check (resolution in ('ASSIGNED', 'RETURNED')),
  constraint unmatched_payment_resolved check ((resolution is null) = (resolved_at is null))
);
create index unmatched_payment_open_bank_index on unmatched_payment (bank, id) where (resolution is null);
create index unmatched_payment_open_index on unmatched_payment (id) where (resolution is null);

-- A row for each payment that arrived in a one-time account; payments into permanent accounts have none.
create table payment_variance (
  transaction_id text collate "C" primary key,
  business_id text not null,
  live boolean not null,
  account_id text not null,
  variance text not null,
  hold text,
  is_use boolean not null,
  decided_at timestamptz(3),
  return_reason text not null default '',
  constraint payment_variance_hold check (((variance = 'NONE') = (hold is null)) and hold in ('HELD',
    'ACCEPTED', 'RETURN_REQUESTED', 'RETURNED')),
  constraint payment_variance_decided check ((decided_at is null) = (hold is null or hold = 'HELD')),
  constraint payment_variance_use check (not is_use or hold is null or hold = 'ACCEPTED'),
  constraint payment_variance_variance check (variance in ('NONE', 'UNDERPAID', 'OVERPAID', 'EXPIRED',
    'REPEATED', 'PAYER_NOT_ALLOWED'))
);
create index payment_variance_held_business_index on payment_variance (business_id, live, hold, transaction_id)
  where (hold in ('HELD', 'RETURN_REQUESTED'));
create index payment_variance_held_index on payment_variance (live, hold, transaction_id) where (hold in ('HELD',
  'RETURN_REQUESTED'));
create unique index payment_variance_use_unique on payment_variance (account_id) where (is_use);

-- What a payment differed in is fixed; the legal transitions are those of src/transactions/variance/variance.ts.
create function payment_variance_guard() returns trigger language plpgsql as $$
  begin
    if (new.transaction_id, new.business_id, new.live, new.account_id, new.variance)
      is distinct from (old.transaction_id, old.business_id, old.live, old.account_id, old.variance)
      or (new.hold is distinct from old.hold and not coalesce((old.hold = 'HELD' and new.hold in ('ACCEPTED',
        'RETURN_REQUESTED', 'RETURNED')) or (old.hold = 'RETURN_REQUESTED' and new.hold = 'RETURNED'), false)) then
      raise exception 'a held payment cannot go from % to %', old.hold, new.hold
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
create trigger payment_variance_guard before update on payment_variance
  for each row execute function payment_variance_guard();
create trigger payment_variance_kept before delete or truncate on payment_variance
  for each statement execute function append_only();

create table reversal (
  transaction_id text collate "C" primary key,
  reason text not null,
  reversed_at timestamptz(3) not null
);
create trigger reversal_append_only before delete or update or truncate on reversal
  for each statement execute function append_only();

create function transaction_reference_guard() returns trigger language plpgsql as $$
  declare
    orphan text;
  begin
    select p.transaction_id into orphan
    from added p left join lateral
      (select true as found from transaction t where t.id = p.transaction_id offset 0) parent on true
    where parent.found is null limit 1;
    if found then
      raise exception 'the transaction % of a row of % does not exist', orphan, tg_table_name
        using errcode = 'foreign_key_violation';
    end if;
    return null;
  end $$;

create trigger conflict_transaction_guard after insert on payment_conflict
  referencing new table as added for each statement execute function transaction_reference_guard();
create trigger variance_transaction_guard after insert on payment_variance
  referencing new table as added for each statement execute function transaction_reference_guard();
create trigger reversal_transaction_guard after insert on reversal
  referencing new table as added for each statement execute function transaction_reference_guard();
