create table account (
  id text primary key,
  business_id text not null,
  reference text not null,
  merchant_reference text not null,
  bank text not null,
  account_number text,
  account_name text,
  status text not null,
  first_name text not null,
  last_name text not null,
  email text not null,
  phone text not null,
  id_type text,
  id_number_encrypted bytea,
  details_hash bytea not null,
  attempts int not null,
  claimed_until timestamptz(3) not null,
  created_at timestamptz(3) not null,
  live boolean not null,
  id_number_hash bytea,
  bank_account_id text not null default '',
  opening_state text not null default 'CREATING',
  last_cause text not null default '',
  next_try_at timestamptz(3),
  connector text not null default 'sandbox',
  requeried_at timestamptz(3),
  one_time boolean not null default false,
  expected_amount_minor bigint,
  amount_rule text not null default 'ANY',
  expires_at timestamptz(3),
  expires_in_seconds int,
  single_use boolean not null default false,
  allowed_payers jsonb,
  metadata jsonb,
  used_at timestamptz(3),
  ended_at timestamptz(3),
  end_due_at timestamptz(3),
  constraint account_account_number_bank_live_unique unique (account_number, bank, live),
  constraint account_business_id_live_merchant_reference_unique unique (business_id, live, merchant_reference),
  constraint account_reference_unique unique (reference),
  constraint account_business_id_foreign foreign key (business_id) references business(id),
  constraint account_allowed_payers check (jsonb_typeof(allowed_payers) = 'array'),
  constraint account_amount_rule check (case when amount_rule in ('EXACT', 'AT_LEAST', 'AT_MOST') then
    expected_amount_minor is not null else amount_rule = 'ANY' end),
  constraint account_bank check (bank in ('9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY')),
  constraint account_connector check (connector = 'sandbox' or (connector = 'live' and live)),
  constraint account_ended check ((status = 'EXPIRED') <= (ended_at is not null)),
  constraint account_expected_amount check (expected_amount_minor > 0),
  constraint account_expires_in check (expires_in_seconds is null or (expires_in_seconds > 0 and expires_at is
    not null)),
  constraint account_metadata check (jsonb_typeof(metadata) = 'object'),
  constraint account_number_when_open check (status = 'PENDING' or (account_number is not null and
    account_name is not null)),
  constraint account_opening_state check (opening_state in ('CREATING', 'RETRYABLE', 'RETRYING', 'REQUERYING',
    'MANUAL_REVIEW')),
  constraint account_one_time check (one_time = (expected_amount_minor is not null or amount_rule <> 'ANY' or
    expires_at is not null or single_use or allowed_payers is not null)),
  constraint account_status check (status in ('PENDING', 'ACTIVE', 'CLOSED', 'EXPIRED') and (status <>
    'EXPIRED' or one_time)),
  constraint account_used check (used_at is null or single_use)
);
create index account_active_bank_index on account (bank, id) where ((status = 'ACTIVE' or end_due_at is not null) and
  live and connector = 'live');
create index account_business_id_live_status_id_index on account (business_id, live, status, id);
create index account_ending_index on account (end_due_at) where (end_due_at is not null);
create index account_id_number_hash_index on account (id_number_hash) where (id_number_hash is not null);
create index account_live_status_id_index on account (live, status, id);
create index account_merchant_reference_index on account using hash (merchant_reference);
create index account_email_live_business_id_id_index on account (email, live, business_id, id);
create index account_review_index on account (live, id) where (status = 'PENDING' and opening_state =
  'MANUAL_REVIEW');
create index account_review_business_index on account (business_id, live, id) where (status = 'PENDING' and
  opening_state = 'MANUAL_REVIEW');
create index account_opening_index on account (next_try_at) where (status = 'PENDING');
create index account_unhashed_index on account (id) where (id_number_encrypted is not null and id_number_hash is
  null);

create function account_id_guard() returns trigger language plpgsql as $$
  begin
    if new.id <> old.id then
      raise exception 'the id of an account cannot change' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;

create trigger account_id_guard before update of id on account for each row execute function account_id_guard();

create function account_delete_guard() returns trigger language plpgsql as $$
  begin
    if old.status <> 'PENDING' or exists (select from transaction where account_id = old.id) then
      raise exception 'an account that was ever open cannot be deleted' using errcode = 'integrity_constraint_violation';
    end if;
    return old;
  end $$;

create trigger account_delete_guard before delete on account for each row execute function account_delete_guard();
create trigger account_mode_guard before update of live on account for each row execute function mode_guard();
create trigger account_not_truncated before truncate on account for each statement execute function append_only();
