create table settlement_terms (
  business_id text primary key,
  schedule text not null,
  working_days int not null,
  cut_off_minutes int not null,
  fee_flat_minor bigint not null,
  fee_basis_points int not null,
  fee_cap_minor bigint not null,
  updated_at timestamptz(3) not null,
  constraint settlement_terms_business_id_foreign foreign key (business_id) references business(id),
  constraint settlement_terms_cut_off check (cut_off_minutes >= 0 and cut_off_minutes < 1440),
  constraint settlement_terms_days check (working_days >= 0 and working_days <= 30 and ((working_days > 0) =
    (schedule = 'WORKING_DAYS'))),
  constraint settlement_terms_fee check (fee_flat_minor >= 0 and fee_basis_points >= 0 and fee_basis_points <=
    10000 and fee_cap_minor >= 0),
  constraint settlement_terms_schedule check (schedule in ('INSTANT', 'DAILY', 'WORKING_DAYS'))
);

create table holiday (
  day date primary key,
  name text not null
);

create table settlement_request (
  id text primary key,
  business_id text not null,
  live boolean not null,
  idempotency_key text not null,
  forced boolean not null,
  created_at timestamptz(3) not null,
  completed_at timestamptz(3),
  constraint settlement_request_business_id_live_idempotency_key_unique unique (business_id, live,
    idempotency_key)
);
create index settlement_request_open_index on settlement_request (id) where (completed_at is null);

create table settlement (
  id text primary key,
  business_id text not null,
  live boolean not null,
  request_id text,
  status text not null,
  forced boolean not null,
  cut_off_at timestamptz(3) not null,
  from_sequence bigint not null,
  to_sequence bigint not null,
  scanned_sequence bigint not null,
  fee_flat_minor bigint not null,
  fee_basis_points int not null,
  fee_cap_minor bigint not null,
  transaction_count bigint not null,
  gross_minor bigint not null,
  fees_minor bigint not null,
  splits_minor bigint not null default 0,
  balance_pending_minor numeric(38,0) not null,
  balance_available_minor numeric(38,0) not null,
  balance_fees_minor numeric(38,0) not null,
  part int not null default 0,
  started_at timestamptz(3) not null,
  completed_at timestamptz(3),
  constraint settlement_business_id_live_to_sequence_unique unique (business_id, live, to_sequence),
  constraint settlement_request_id_business_id_part_unique unique (request_id, business_id, part),
  constraint settlement_business_id_foreign foreign key (business_id) references business(id),
  constraint settlement_request_id_foreign foreign key (request_id) references settlement_request(id),
  constraint settlement_completed check (((completed_at is not null) = (status = 'COMPLETED')) and (status =
    'RUNNING' or scanned_sequence = to_sequence)),
  constraint settlement_range check (from_sequence <= scanned_sequence and scanned_sequence <= to_sequence and
    from_sequence < to_sequence),
  constraint settlement_status check (status in ('RUNNING', 'COMPLETED')),
  constraint settlement_totals check (transaction_count >= 0 and gross_minor >= 0 and fees_minor >= 0 and
    splits_minor >= 0 and fees_minor + splits_minor <= gross_minor)
);
create index settlement_business_id_live_id_index on settlement (business_id, live, id);
create index settlement_live_id_index on settlement (live, id);
create unique index settlement_running_unique on settlement (business_id, live) where (status = 'RUNNING');

create table settlement_due (
  business_id text not null,
  live boolean not null,
  due_at timestamptz(3) not null,
  next_at timestamptz(3) not null,
  failures int not null,
  primary key (business_id, live)
);
create index settlement_due_due_at_business_id_live_index on settlement_due (due_at, business_id, live);
create index settlement_due_next_at_index on settlement_due (next_at);

create table settlement_sweep (
  id int primary key,
  next_at timestamptz(3) not null,
  after_business_id text not null,
  after_live boolean not null,
  is_expected boolean not null,
  constraint settlement_sweep_one_row check (id = 1)
);

-- In kobo, half a kobo rounds up; never more than the amount.
create function settlement_fee(amount_minor bigint, flat_minor bigint, basis_points integer, cap_minor bigint) returns bigint language sql immutable as $$
  select least(
    amount_minor,
    case when cap_minor = 0 then amount_minor else cap_minor end,
    (flat_minor + div(amount_minor::numeric * basis_points + 5000, 10000))
  )::bigint $$;

-- A settlement and a reversal of the same balance exclude each other until the commit, so each sees the postings
-- of the other if it reads them after it has the lock. Reversals share the lock.
create function lock_settled(business_id text, live boolean, is_reversal boolean) returns void language sql as $$
  select case when is_reversal then pg_advisory_xact_lock_shared(key) else pg_advisory_xact_lock(key) end
  from hashtextextended(case when live then 'live' else 'test' end || ' settled state of ' || business_id, 0) key $$;

create function settlement_guard() returns trigger language plpgsql as $$
  begin
    if old.status = 'COMPLETED' then
      raise exception 'a completed settlement cannot be changed' using errcode = 'integrity_constraint_violation';
    end if;
    if (new.id, new.business_id, new.live, new.request_id, new.part, new.forced, new.cut_off_at, new.from_sequence,
        new.fee_flat_minor, new.fee_basis_points, new.fee_cap_minor)
      is distinct from (old.id, old.business_id, old.live, old.request_id, old.part, old.forced, old.cut_off_at,
        old.from_sequence, old.fee_flat_minor, old.fee_basis_points, old.fee_cap_minor)
      -- Only a full settlement ends early: see src/settlement/settlement.ts.
      or (new.to_sequence <> old.to_sequence and not (new.to_sequence < old.to_sequence
        and new.to_sequence = new.scanned_sequence and new.gross_minor >= 2::numeric ^ 62))
      or new.scanned_sequence < old.scanned_sequence or new.gross_minor < old.gross_minor
      or new.fees_minor < old.fees_minor or new.splits_minor < old.splits_minor or new.transaction_count < old.transaction_count then
      raise exception 'the scope and terms of a settlement are fixed when it starts, and its totals never decrease' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;

create trigger settlement_delete_guard before delete or truncate on settlement
  for each statement execute function append_only();
create trigger settlement_guard before update on settlement for each row execute function settlement_guard();
insert into settlement_sweep (id, next_at, after_business_id, after_live, is_expected) values (1, now(), '', false, true);
