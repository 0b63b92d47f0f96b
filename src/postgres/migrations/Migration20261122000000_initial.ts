import { Migration } from '@mikro-orm/migrations'

/** The whole schema: what the entities state, then what they cannot state. */
export class Migration20261122000000_initial extends Migration {
  override up(): void {
    for (const part of [TABLES, FUNCTIONS, TRIGGERS, ROWS]) this.addSql(part)
  }
}

const TABLES = `
alter table schema_migration add column works_since text;
create table business (
  id text primary key, name text not null, alias text not null, created_at timestamptz(3) not null,
  rate_limit_per_second int, rate_limit_burst int,
  constraint business_rate_limit_check check ( case when (rate_limit_per_second is null) then (rate_limit_burst is
    null) else (rate_limit_per_second > 0 and (rate_limit_burst is null or (rate_limit_burst > 0 and (rate_limit_burst
    <= (60 * rate_limit_per_second))))) end));
create index business_alias_index on business (lower(alias) collate "C", id);
create index business_name_index on business (lower(name) collate "C", id);
create table api_key (
  id text primary key, business_id text not null, prefix text not null, secret_hash bytea not null,
  created_at timestamptz(3) not null, expires_at timestamptz(3), revoked_at timestamptz(3), live boolean not null,
  allowed_cidrs text[] not null, scopes text[] not null default '{}', last_used_at timestamptz(3),
  constraint api_key_scopes check (scopes <@ array['accounts:read', 'accounts:create', 'accounts:write',
    'payments:read', 'payments:decide', 'payments:requery', 'payments:simulate', 'events:read', 'balances:read', 'webhooks:read',
    'webhooks:write']),
  constraint api_key_business_id_foreign foreign key (business_id) references business(id));
create index api_key_business_id_id_index on api_key (business_id, id);
create table internal_token (
  id text primary key, name text not null, description text not null, prefix text not null,
  secret_hash bytea not null, scopes text[] not null, business_ids text[], created_at timestamptz(3) not null,
  expires_at timestamptz(3), revoked_at timestamptz(3), last_used_at timestamptz(3),
  constraint internal_token_business_ids check ((cardinality(business_ids) > 0) and (cardinality(business_ids) <=
    100)),
  constraint internal_token_scopes check ((cardinality(scopes) > 0) and (scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'read', 'events:subscribe'])));
create table session (
  id text primary key, kind text not null, caller_id text not null, name text not null, scopes text[] not null,
  business_ids text[], secret_hash bytea not null, proof bytea, address text not null,
  created_at timestamptz(3) not null, last_used_at timestamptz(3) not null, expires_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  constraint session_kind check (kind in ('token', 'oidc', 'portal')),
  constraint session_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'read', 'events:subscribe']),
  constraint session_business_ids check (cardinality(business_ids) > 0 and cardinality(business_ids) <= 100),
  constraint session_proof check ((kind = 'token' and caller_id = 'bootstrap') = (proof is not null)),
  constraint session_portal check (kind <> 'portal' or (business_ids is not null and not 'admin' = any (scopes))));
create index session_caller_id_id_index on session (caller_id, id);
create table sign_in_code (
  id text primary key, caller_id text not null, name text not null, scopes text[] not null, business_ids text[],
  secret_hash bytea not null, proof bytea, created_at timestamptz(3) not null, expires_at timestamptz(3) not null,
  caller_expires_at timestamptz(3),
  constraint sign_in_code_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'read', 'events:subscribe']),
  constraint sign_in_code_business_ids check (cardinality(business_ids) > 0 and cardinality(business_ids) <= 100),
  constraint sign_in_code_proof check ((caller_id = 'bootstrap') = (proof is not null)));
create table portal_link (
  id text primary key, business_id text not null, scopes text[] not null, description text not null,
  secret_hash bytea not null, created_at timestamptz(3) not null, expires_at timestamptz(3) not null,
  revoked_at timestamptz(3), last_used_at timestamptz(3),
  constraint portal_link_scopes check (cardinality(scopes) > 0 and scopes <@ array['payments:write',
    'payments:reverse', 'splits:write', 'read', 'events:subscribe']));
create index portal_link_business_id_id_index on portal_link (business_id, id);
create table audit_head (
  id int primary key, "number" bigint not null, hash bytea not null, mac bytea not null,
  constraint audit_head_one_row check (id = 1));
create table audit_mac (
  "number" bigint primary key, mac bytea not null);
create table audit_entry (
  "number" bigint primary key, at timestamptz(3) not null, actor_kind text not null, actor_id text not null,
  actor_name text not null, address text not null, request_id text not null, action text not null,
  target_kind text not null, target_id text not null, business_id text, details text not null,
  previous_hash bytea not null, hash bytea not null,
  constraint audit_entry_actor_kind check (actor_kind in ('token', 'secret_key', 'bootstrap', 'system', 'command_line')),
  constraint audit_entry_business_id check (business_id <> ''),
  constraint audit_entry_details check (octet_length(details) <= 4096));
create index audit_entry_action_number_index on audit_entry (action, number);
create index audit_entry_actor_id_number_index on audit_entry (actor_id, number);
create index audit_entry_business_id_number_index on audit_entry (business_id, number);
create index audit_entry_target_id_number_index on audit_entry (target_id, number);
-- Not logged: a crash loses only that callers were near their limits. Updated rows find room in their page.
create unlogged table rate_bucket (
  name text primary key, tokens double precision not null, per_second double precision not null,
  burst double precision not null, at timestamptz(3) not null) with (fillfactor=50);
create table master_key (
  id text primary key, known_text bytea not null, created_at timestamptz(3) not null);
create table master_key_holder (
  id text primary key, current_key_id text not null, known_key_ids text[] not null, version text not null,
  migration text not null, process text not null, started_at timestamptz(3) not null, seen_at timestamptz(3) not null);
create table bank_breaker (
  bank text not null, process_id text not null, state text not null, denial text not null default '',
  opened_at timestamptz(3) not null, seen_at timestamptz(3) not null,
  primary key (bank, process_id));
create table account (
  id text primary key, business_id text not null, reference text not null, merchant_reference text not null,
  bank text not null, account_number text, account_name text, status text not null, first_name text not null,
  last_name text not null, email text not null, phone text not null, id_type text, id_number_encrypted bytea,
  details_hash bytea not null, attempts int not null, claimed_until timestamptz(3) not null,
  created_at timestamptz(3) not null, live boolean not null, id_number_hash bytea,
  bank_account_id text not null default '', opening_state text not null default 'CREATING',
  last_cause text not null default '', next_try_at timestamptz(3), connector text not null default 'sandbox',
  requeried_at timestamptz(3),
  one_time boolean not null default false, expected_amount_minor bigint, amount_rule text not null default 'ANY',
  expires_at timestamptz(3), expires_in_seconds int, single_use boolean not null default false, allowed_payers jsonb,
  metadata jsonb, used_at timestamptz(3), ended_at timestamptz(3), end_due_at timestamptz(3),
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
  constraint account_expires_in check (expires_in_seconds is null or (expires_in_seconds > 0 and
    expires_at is not null)),
  constraint account_metadata check (jsonb_typeof(metadata) = 'object'),
  constraint account_number_when_open check (status = 'PENDING' or (account_number is not null and account_name is not
    null)),
  constraint account_opening_state check (opening_state in ('CREATING', 'RETRYABLE', 'RETRYING', 'REQUERYING',
    'MANUAL_REVIEW')),
  constraint account_one_time check (one_time = (expected_amount_minor is not null or amount_rule <> 'ANY' or
    expires_at is not null or single_use or allowed_payers is not null)),
  constraint account_status check (status in ('PENDING', 'ACTIVE', 'CLOSED', 'EXPIRED') and (status <> 'EXPIRED' or
    one_time)),
  constraint account_used check (used_at is null or single_use));
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
-- How the payments of an account are divided: the last version that is valid from their recording or before.
create table account_split (
  id text primary key, account_id text not null, valid_from timestamptz(3) not null, fee_bearer text not null,
  constraint account_split_account_id_valid_from_unique unique (account_id, valid_from),
  constraint account_split_account_id_foreign foreign key (account_id) references account(id) on delete cascade,
  constraint account_split_fee_bearer check (fee_bearer in ('OWNER', 'SHARED')));
create table split_approval (
  business_id text not null, recipient_id text not null, approved_at timestamptz(3) not null,
  primary key (business_id, recipient_id),
  constraint split_approval_business_id_foreign foreign key (business_id) references business(id),
  constraint split_approval_recipient_id_foreign foreign key (recipient_id) references business(id),
  constraint split_approval_recipient check (business_id <> recipient_id));
create table account_split_recipient (
  split_id text not null, "number" int not null, business_id text not null, basis_points int, fixed_minor bigint,
  primary key (split_id, number),
  constraint account_split_recipient_split_id_business_id_unique unique (split_id, business_id),
  constraint account_split_recipient_split_id_foreign foreign key (split_id) references account_split(id) on delete
    cascade,
  constraint account_split_recipient_business_id_foreign foreign key (business_id) references business(id),
  constraint account_split_recipient_number check ((number >= 1) and (number <= 5)),
  constraint account_split_recipient_share check (case when basis_points is null then (fixed_minor is not null and
    fixed_minor > 0) else (fixed_minor is null and basis_points > 0 and basis_points <= 10000) end));
-- Who inserts the row of a session records its payment. In hash partitions, each index stays small enough for the
-- memory. No foreign key: a trigger of transaction checks a statement's rows together. Rows of this and the next
-- tables are only added, so a vacuum every million of them freezes them for good, instead of one that reads all of
-- a large table; by default it waits for a fifth of the table. The pages have no room for updates, as hardly any
-- row is updated; nor have those of the ledger's index for a settlement's postings, as room for them would make
-- the index a quarter larger and save nothing (2 % of the WAL).
create table payment_session (
  session_id text not null, bank text not null, live boolean not null, transaction_id text collate "C" not null,
  primary key (session_id, bank, live)) partition by hash (session_id);
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
  id text collate "C" primary key, business_id text not null, account_id text not null, bank text not null,
  session_id text not null, amount_minor bigint not null, status text not null, paid_at timestamptz(3) not null, created_at timestamptz(3) not null, payer_name text not null,
  payer_account_number text not null, payer_bank_code text not null, payer_bank_name text not null,
  narration text not null, live boolean not null, recorded_by text not null, traceparent text,
  constraint transaction_amount check (amount_minor > 0),
  constraint transaction_status check (status in ('PENDING', 'SUCCESS', 'FAILED', 'REVERSED'))) partition by range (id);
create table transaction_rest partition of transaction for values from (minvalue) to (maxvalue) with (
  autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=1000000, autovacuum_freeze_min_age=0);
create index transaction_account_id_paid_at_id_index on transaction (account_id, paid_at, id);
create index transaction_account_unsuccessful_index on transaction (account_id, status, paid_at, id) where (status
  <> 'SUCCESS');
create index transaction_business_id_live_paid_at_id_index on transaction (business_id, live, paid_at, id);
create index transaction_test_index on transaction (id) where not live;
create index transaction_unsuccessful_index on transaction (business_id, live, status, paid_at, id) where (status <>
  'SUCCESS');
create table ledger_posting (
  transaction_id text collate "C" not null, "kind" text not null, business_id text not null, debit_account text not null,
  credit_account text not null, amount_minor bigint not null, created_at timestamptz(3) not null,
  live boolean not null, settlement_id text, primary key (transaction_id, kind),
  constraint ledger_posting_amount check (amount_minor > 0),
  constraint ledger_posting_movement check ( case kind when 'payment' then (credit_account in ('pending', 'held')
    and starts_with(debit_account, 'clearing:') and settlement_id is null) when 'acceptance' then (debit_account = 'held'
    and credit_account = 'pending' and settlement_id is null) when 'settlement' then (debit_account =
    'pending' and credit_account = 'available' and settlement_id is not null) when 'fee' then (debit_account =
    'available' and credit_account = 'fees' and settlement_id is not null) when 'fee_reversal' then (debit_account =
    'fees' and credit_account = 'available' and settlement_id is null) when 'settlement_reversal' then (debit_account
    = 'available' and credit_account = 'pending' and settlement_id is null) when 'acceptance_reversal' then
    (debit_account = 'pending' and credit_account = 'held' and settlement_id is null) when 'payment_reversal' then
    (debit_account in ('pending', 'held') and starts_with(credit_account, 'clearing:') and settlement_id is null) when
    'split' then (debit_account = 'available' and credit_account = 'splits' and settlement_id is not null) when
    'split_reversal' then (debit_account = 'splits' and credit_account = 'available' and settlement_id is null) else
    (case when (kind ~ '^share_[1-5]$') then (debit_account = 'splits' and credit_account = 'available' and
    settlement_id is not null) else (kind ~ '^share_[1-5]_reversal$' and debit_account = 'available' and
    credit_account = 'splits' and settlement_id is null) end) end),
  constraint ledger_posting_sides check (debit_account <> credit_account)) partition by range (transaction_id);
create index ledger_posting_share_index on ledger_posting (business_id, live, settlement_id) where
  starts_with(kind, 'share_');
create table ledger_posting_rest partition of ledger_posting for values from (minvalue) to (maxvalue) with (
  autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=1000000, autovacuum_freeze_min_age=0);
create table payment_conflict (
  transaction_id text collate "C" not null, account_number text not null, amount_minor bigint not null, status text not null,
  created_at timestamptz(3) not null, id text not null, resolved_at timestamptz(3), note text not null default '',
  constraint payment_conflict_id_unique unique (id),
  primary key (transaction_id, account_number, amount_minor, status));
create index payment_conflict_open_index on payment_conflict (id) where resolved_at is null;
create table unmatched_payment (
  id text primary key, bank text not null, account_number text not null, session_id text not null,
  amount_minor bigint not null, status text not null, paid_at timestamptz(3) not null,
  created_at timestamptz(3) not null, payer_name text not null, payer_account_number text not null,
  payer_bank_code text not null, payer_bank_name text not null, narration text not null, resolution text,
  resolved_at timestamptz(3), note text not null default '', transaction_id text,
  constraint unmatched_payment_session_id_bank_account_number__f680e_unique unique (session_id, bank, account_number,
    amount_minor, status),
  constraint unmatched_payment_amount check (amount_minor > 0),
  constraint unmatched_payment_resolution check (resolution in ('ASSIGNED', 'RETURNED')),
  constraint unmatched_payment_resolved check ((resolution is null) = (resolved_at is null)));
create index unmatched_payment_open_bank_index on unmatched_payment (bank, id) where (resolution is null);
create index unmatched_payment_open_index on unmatched_payment (id) where (resolution is null);
-- A row for each payment that arrived in a one-time account; payments into permanent accounts have none.
create table payment_variance (
  transaction_id text collate "C" primary key, business_id text not null, live boolean not null,
  account_id text not null, variance text not null, hold text, is_use boolean not null, decided_at timestamptz(3),
  return_reason text not null default '',
  constraint payment_variance_hold check (((variance = 'NONE') = (hold is null)) and hold in ('HELD', 'ACCEPTED',
    'RETURN_REQUESTED', 'RETURNED')),
  constraint payment_variance_decided check ((decided_at is null) = (hold is null or hold = 'HELD')),
  constraint payment_variance_use check (not is_use or hold is null or hold = 'ACCEPTED'),
  constraint payment_variance_variance check (variance in ('NONE', 'UNDERPAID', 'OVERPAID', 'EXPIRED', 'REPEATED',
    'PAYER_NOT_ALLOWED')));
create index payment_variance_held_business_index on payment_variance (business_id, live, hold, transaction_id)
  where (hold in ('HELD', 'RETURN_REQUESTED'));
create index payment_variance_held_index on payment_variance (live, hold, transaction_id) where (hold in ('HELD',
  'RETURN_REQUESTED'));
create unique index payment_variance_use_unique on payment_variance (account_id) where (is_use);
create table reversal (
  transaction_id text collate "C" primary key, reason text not null, reversed_at timestamptz(3) not null);
create table bank_notification (
  id text primary key, bank text not null, body_digest bytea not null, received_at timestamptz(3) not null,
  raw_encrypted bytea not null, bank_key text not null, state text not null, outcome text not null,
  cause text not null, tries int not null, next_try_at timestamptz(3), account_number text not null default '',
  session_id text not null default '', amount_minor bigint not null default 0, resolved_at timestamptz(3),
  note text not null default '', refused boolean not null default false,
  constraint bank_notification_bank_body_digest_unique unique (bank, body_digest),
  constraint bank_notification_pending check ((state = 'PENDING') = (next_try_at is not null)),
  constraint bank_notification_state check (state in ('PENDING', 'PROCESSED', 'MANUAL_REVIEW')));
create index bank_notification_due_index on bank_notification (next_try_at) where (state = 'PENDING');
create index bank_notification_manual_review_index on bank_notification (id) where (state = 'MANUAL_REVIEW');
create index bank_notification_payment_index on bank_notification (bank_key, bank, id) where bank_key <> '';
create index bank_notification_received_at_index on bank_notification (received_at);
create table bank_payment_key (
  bank text not null, bank_key text not null, session_id text not null, created_at timestamptz(3) not null,
  primary key (bank, bank_key), constraint bank_payment_key_session_id_bank_unique unique (session_id, bank));
create table reconciliation_run (
  bank text not null, scope text not null, in_progress boolean not null, from_at timestamptz(3) not null,
  to_at timestamptz(3) not null, cursor text not null, missed int not null, failures int not null,
  next_at timestamptz(3) not null, primary key (bank, scope));
-- \`xid\` comes before \`seq\`: a row gets its transaction id first, so a transaction that has none yet will
-- only write higher numbers (see sequence_events).
create table outbox (
  xid xid8 not null default pg_current_xact_id(), seq bigint primary key generated always as identity,
  event_id text collate "C" not null, business_id text not null, "kind" text not null, occurred_at timestamptz(3) not null,
  payload bytea not null, subject_id text, live boolean not null, pending_minor bigint not null default 0,
  available_minor bigint not null default 0, fees_minor bigint not null default 0, nets_zero boolean not null default false,
  constraint outbox_payment check (case kind when 'PAYMENT_NOTIFICATION' then pending_minor >= 0 when
    'PAYMENT_ACCEPTED' then pending_minor > 0 when 'SHARE_SETTLED' then (pending_minor = 0 and available_minor > 0 and
    fees_minor = 0) when 'SHARE_REVERSED' then (pending_minor = 0 and available_minor < 0 and fees_minor = 0) else
    true end)) partition by range (seq);
create index outbox_xid_index on outbox (xid);
-- Rows are never updated. A vacuum of each 100,000 new rows finds their pages in memory, and freezes them for
-- good: without freeze_min_age they would be read and written again long after.
create table outbox_rest partition of outbox for values from (minvalue) to (maxvalue) with (
  autovacuum_vacuum_insert_threshold=100000, autovacuum_vacuum_insert_scale_factor=0, autovacuum_freeze_min_age=0,
  autovacuum_analyze_threshold=100000, autovacuum_analyze_scale_factor=0);
create table event_epoch (
  epoch int primary key, start_position bigint not null, started_at timestamptz(3) not null);
-- One row for each tick that did something; the newest is the state (view sequencer). It deletes the one
-- before, so the newest is found at once, however many deleted rows an old snapshot keeps. At a thousand ticks
-- a second, 10,000 deleted rows are 2 MB.
create table sequencer_tick (
  tick bigint primary key, epoch int not null, "position" bigint not null, snapshot pg_snapshot not null,
  target pg_snapshot, done_seq bigint not null, system_identifier bigint not null, timeline int not null,
  base_seq bigint not null, restored_seq bigint, restored_position bigint, low_seq bigint not null,
  low_position bigint not null, next_low_seq bigint not null, next_low_position bigint not null,
  next_low_xid xid8 not null,
  constraint sequencer_tick_low check (low_seq >= base_seq and next_low_seq >= low_seq),
  constraint sequencer_tick_restored check ((restored_seq is null) = (restored_position is null))) with (
  autovacuum_vacuum_threshold=10000, autovacuum_vacuum_scale_factor=0);
-- Its events up to the floor have expired; those up to \`archived\` have archived entries.
create table event_retention (
  id int primary key, floor bigint not null, archived bigint not null, next_run_at timestamptz(3) not null,
  constraint event_retention_archived check (archived <= floor),
  constraint event_retention_one_row check (id = 1));
create table log_follower (
  name text not null, "position" bigint not null, epoch int not null, set_aside bigint not null default 0,
  primary key (name, "position"));
-- As sequencer_tick: one row for each tick and business, which deletes the one before, unless that was the last
-- one of a block of 1,024 sequence numbers.
create table event_business_counter (
  business_id text not null, live boolean not null, last_sequence bigint not null,
  pending_minor numeric(38,0) not null, available_minor numeric(38,0) not null, fees_minor numeric(38,0) not null,
  primary key (business_id, live, last_sequence)) with (
  autovacuum_vacuum_threshold=10000, autovacuum_vacuum_scale_factor=0);
create table event_log (
  "position" bigint not null, outbox_seq bigint not null, event_id text collate "C" not null, business_id text not null,
  business_sequence bigint not null, logged_at timestamptz(3) not null, live boolean not null, epoch int not null,
  primary key ("position")) partition by range ("position");
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
  business_id text not null, live boolean not null, business_sequence bigint not null, "kind" text not null,
  subject_id text not null, occurred_at timestamptz(3) not null, logged_at timestamptz(3) not null,
  pending_minor bigint not null, available_minor bigint not null, fees_minor bigint not null,
  primary key (business_id, live, business_sequence));
create table settlement_terms (
  business_id text primary key, schedule text not null, working_days int not null, cut_off_minutes int not null,
  fee_flat_minor bigint not null, fee_basis_points int not null, fee_cap_minor bigint not null,
  updated_at timestamptz(3) not null,
  constraint settlement_terms_business_id_foreign foreign key (business_id) references business(id),
  constraint settlement_terms_cut_off check (cut_off_minutes >= 0 and cut_off_minutes < 1440),
  constraint settlement_terms_days check (working_days >= 0 and working_days <= 30 and ((working_days > 0) = (schedule
    = 'WORKING_DAYS'))),
  constraint settlement_terms_fee check (fee_flat_minor >= 0 and fee_basis_points >= 0 and fee_basis_points <= 10000
    and fee_cap_minor >= 0),
  constraint settlement_terms_schedule check (schedule in ('INSTANT', 'DAILY', 'WORKING_DAYS')));
create table holiday (
  day date primary key, name text not null);
create table settlement_request (
  id text primary key, business_id text not null, live boolean not null, idempotency_key text not null,
  forced boolean not null, created_at timestamptz(3) not null, completed_at timestamptz(3),
  constraint settlement_request_business_id_live_idempotency_key_unique unique (business_id, live, idempotency_key));
create index settlement_request_open_index on settlement_request (id) where (completed_at is null);
create table settlement (
  id text primary key, business_id text not null, live boolean not null, request_id text, status text not null,
  forced boolean not null, cut_off_at timestamptz(3) not null, from_sequence bigint not null,
  to_sequence bigint not null, scanned_sequence bigint not null, fee_flat_minor bigint not null,
  fee_basis_points int not null, fee_cap_minor bigint not null, transaction_count bigint not null,
  gross_minor bigint not null, fees_minor bigint not null, splits_minor bigint not null default 0,
  balance_pending_minor numeric(38,0) not null, balance_available_minor numeric(38,0) not null,
  balance_fees_minor numeric(38,0) not null, part int not null default 0, started_at timestamptz(3) not null,
  completed_at timestamptz(3),
  constraint settlement_business_id_live_to_sequence_unique unique (business_id, live, to_sequence),
  constraint settlement_request_id_business_id_part_unique unique (request_id, business_id, part),
  constraint settlement_business_id_foreign foreign key (business_id) references business(id),
  constraint settlement_request_id_foreign foreign key (request_id) references settlement_request(id),
  constraint settlement_completed check (((completed_at is not null) = (status = 'COMPLETED')) and (status = 'RUNNING'
    or scanned_sequence = to_sequence)),
  constraint settlement_range check (from_sequence <= scanned_sequence and scanned_sequence <= to_sequence and
    from_sequence < to_sequence),
  constraint settlement_status check (status in ('RUNNING', 'COMPLETED')),
  constraint settlement_totals check (transaction_count >= 0 and gross_minor >= 0 and fees_minor >= 0 and
    splits_minor >= 0 and fees_minor + splits_minor <= gross_minor));
create index settlement_business_id_live_id_index on settlement (business_id, live, id);
create index settlement_live_id_index on settlement (live, id);
create unique index settlement_running_unique on settlement (business_id, live) where (status = 'RUNNING');
create table settlement_due (
  business_id text not null, live boolean not null, due_at timestamptz(3) not null, next_at timestamptz(3) not null,
  failures int not null, primary key (business_id, live));
create index settlement_due_due_at_business_id_live_index on settlement_due (due_at, business_id, live);
create index settlement_due_next_at_index on settlement_due (next_at);
create table settlement_sweep (
  id int primary key, next_at timestamptz(3) not null, after_business_id text not null, after_live boolean not null,
  is_expected boolean not null, constraint settlement_sweep_one_row check (id = 1));
-- A row for each move, of which the highest counts. Thresholds are absolute, as it has no size to take a share of: it
-- is vacuumed once a page or two is dead, and analysed often, so that no plan of when it was one page scans many.
create table webhook_dispatcher (
  "position" bigint primary key)
  with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500, autovacuum_vacuum_insert_threshold=-1,
  autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=500);
create table webhook_endpoint (
  id text primary key, business_id text not null, url text not null, kinds text[] not null,
  description text not null, concurrency int not null, after_position bigint not null,
  created_at timestamptz(3) not null, failing_since timestamptz(3), warned_at timestamptz(3),
  disabled_at timestamptz(3), disabled_reason text, deleted_at timestamptz(3), live boolean not null,
  dropped_sequence bigint not null default 0, connection_version int not null default 0, connection_encrypted bytea,
  certificate_expires_at timestamptz(3),
  rate_limit int not null default 0, ordered boolean not null default false, ordered_from bigint not null default 0,
  constraint webhook_endpoint_business_id_foreign foreign key (business_id) references business(id),
  constraint webhook_endpoint_rate_limit check (rate_limit >= 0 and rate_limit <= 1000),
  constraint webhook_endpoint_concurrency check (concurrency >= 1 and concurrency <= 50),
  constraint webhook_endpoint_disabled check (((disabled_at is null) = (disabled_reason is null)) and disabled_reason
    in ('REQUESTED', 'GONE', 'FAILING')));
create index webhook_endpoint_business_id_id_index on webhook_endpoint (business_id, id);
create index webhook_endpoint_connection_index on webhook_endpoint (id) where (connection_encrypted is not null);
create index webhook_endpoint_failing_index on webhook_endpoint (live, (coalesce(failing_since, disabled_at)), id)
  where (deleted_at is null and ((disabled_at is null and failing_since is not null) or disabled_reason <>
  'REQUESTED'));
create table webhook_secret (
  endpoint_id text not null, "number" int not null, secret_encrypted bytea not null,
  created_at timestamptz(3) not null, expires_at timestamptz(3), primary key (endpoint_id, number),
  constraint webhook_secret_endpoint_id_foreign foreign key (endpoint_id) references webhook_endpoint(id));
-- No foreign key to webhook_endpoint: to drop a partition would wait for, and hold up, all that use endpoints.
-- Deliveries are made of endpoints read by the same statement, and an endpoint is purged after its last delivery.
create table webhook_delivery (
  id text not null, endpoint_id text not null, "position" bigint not null, state text not null,
  attempts int not null, schedule_from int not null default 0, due_at timestamptz(3) not null, claims int not null,
  created_at timestamptz(3) not null, completed_at timestamptz(3), failure text, leased_until timestamptz(3),
  started_at timestamptz(3), latency_ms int, status int, response_body text, error text,
  sequence bigint not null default 0, previous_sequence bigint not null default 0,
  constraint webhook_delivery_endpoint_id_position_unique unique (endpoint_id, "position"),
  constraint webhook_delivery_completed check (((completed_at is null) = (state = 'PENDING')) and ((failure is null) =
    (state <> 'FAILED'))),
  constraint webhook_delivery_state check (state in ('PENDING', 'DELIVERED', 'FAILED')),
  primary key (id, "position")) partition by range ("position");
create index webhook_delivery_due_index on webhook_delivery (endpoint_id, due_at) where (state = 'PENDING');
create index webhook_delivery_failed_index on webhook_delivery (endpoint_id, "position") where (state = 'FAILED');
-- Claims and completions rewrite a row. With room in its page, a delivery writes a tenth less to the log than without
-- (966 bytes, not 1,070), and one with a retry two fifths less (1,647, not 2,663), as its claims change no index.
-- Each delivery leaves a dead entry in the index of the pending ones, which claims pass: they are vacuumed by number,
-- as a share would grow with the partition.
create table webhook_delivery_rest partition of webhook_delivery for values from (minvalue) to (maxvalue)
  with (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=50000);
-- No foreign key to webhook_delivery, for the same reason: an attempt is written by the statement that writes to its
-- delivery, at the same position, and partitions of attempts are dropped after those of deliveries.
create table webhook_attempt (
  delivery_id text not null, "number" int not null, "position" bigint not null, started_at timestamptz(3) not null,
  latency_ms int not null, status int, response_body text not null, error text not null,
  primary key (delivery_id, number, "position")) partition by range ("position");
-- Only added to, so pages are full; frozen while they are in memory, and not again before the partition is dropped.
create table webhook_attempt_rest partition of webhook_attempt for values from (minvalue) to (maxvalue)
  with (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=50000);
-- Both are added to in place, by upserts; pages have room for the versions of a row.
create table webhook_hour (
  business_id text not null, live boolean not null, hour timestamptz(3) not null, attempts bigint not null,
  delivered bigint not null, failed bigint not null, delays int[] not null,
  primary key (business_id, live, hour)) with (fillfactor=50);
create index webhook_hour_hour_index on webhook_hour (hour);
create table payment_hour (
  business_id text not null, live boolean not null, bank text not null, hour timestamptz(3) not null,
  payments bigint not null, amount_minor numeric(38,0) not null, reversals bigint not null,
  reversed_minor numeric(38,0) not null, last_at timestamptz(3), primary key (business_id, live, bank, hour)) with (fillfactor=50);
create index payment_hour_hour_index on payment_hour (hour);
`

const FUNCTIONS = `
create sequence sandbox_serial increment 256 start 200000000 maxvalue 999999999;
create view money_event as
  SELECT archived_entry.business_id, archived_entry.live, archived_entry.business_sequence, archived_entry.kind,
  archived_entry.subject_id, archived_entry.occurred_at, archived_entry.logged_at, archived_entry.pending_minor,
  archived_entry.available_minor, archived_entry.fees_minor FROM archived_entry UNION ALL SELECT l.business_id,
  l.live, l.business_sequence, o.kind, o.subject_id, o.occurred_at, l.logged_at, o.pending_minor, o.available_minor,
  o.fees_minor FROM event_log l JOIN outbox o ON o.seq = l.outbox_seq WHERE (o.pending_minor <> 0 OR o.available_minor
    <> 0 OR o.fees_minor <> 0 OR o.nets_zero) AND l.position > (SELECT archived FROM event_retention WHERE id = 1);
-- The state of the sequencer: see sequencer_tick.
create view sequencer as SELECT * FROM sequencer_tick ORDER BY tick DESC LIMIT 1;
-- Identifies the cluster and the history of its log: a promoted standby begins a timeline of its own. Read from
-- the insert position, as the timeline of the last checkpoint is seconds late.
create function current_cluster(OUT system_identifier bigint, OUT timeline integer) language sql as $$
  select c.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
  from pg_control_system() c $$;
-- One tick of the sequencer: see src/events/sequencer.ts. Each statement of a volatile function has its
-- own snapshot, so what is read after the lock is newer than the lock. New rows are found by their transaction, the rest of a large
-- backlog by its number; a condition on both would read the index of numbers from its beginning.
--
-- The events of a business are gathered in arrays and taken apart again, so the statement joins nothing and the
-- planner, which expects one row of each step, has no join to choose. Sequential scans are off because its plans are
-- kept: one that was made while the outbox was small would read all of it later. That raises the estimated costs beyond
-- those from which JIT compiles, hence jit is off here too, for servers behind a pooler.
--
-- Only partitions with rows after \`low_seq\` are read. A row gets its transaction's id before its number, so a
-- transaction that had no id at some time only writes higher numbers than the last one of that time.
-- \`next_low_seq\` is the last number before a tick got its own id, \`next_low_xid\`: once that and all earlier
-- transactions have ended, and their rows are numbered, no row up to \`next_low_seq\` can appear any more. (The
-- end of a snapshot would not do: transactions beyond it may have their ids already.) Rows after it have positions
-- after those of before that tick: \`next_low_position\`, then \`low_position\`.
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
-- The sequence of the last event before a position that an endpoint was sent, 0 if there is none. A function of its
-- own, as it opens every partition of deliveries: it is called for endpoints without recent deliveries only.
create function last_delivery_sequence(endpoint text, before bigint) returns bigint language plpgsql stable as $$
  declare
    found_sequence bigint;
  begin
    select d.sequence into found_sequence from webhook_delivery d
      where d.endpoint_id = endpoint and d.position < before order by d.position desc limit 1;
    return coalesce(found_sequence,
      (select e.dropped_sequence from webhook_endpoint e where e.id = endpoint), 0);
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
-- The legal transitions of a transaction: see src/transactions/ledger/ledger.ts.
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
-- In kobo, half a kobo rounds up; never more than the amount.
create function settlement_fee(amount_minor bigint, flat_minor bigint, basis_points integer, cap_minor bigint) returns bigint language sql immutable as $$
  select least(
    amount_minor,
    case when cap_minor = 0 then amount_minor else cap_minor end,
    (flat_minor + div(amount_minor::numeric * basis_points + 5000, 10000))
  )::bigint $$;
-- The shares of the recipients in a payment into an account, by the split that was valid when it was recorded, in
-- kobo. A percentage is of the amount, or of the amount less the fee if the fee is shared, and is rounded down to a
-- kobo. In the order of the recipients, no share is more than what is left of the amount after the fee and the shares
-- before; the owner keeps the rest. Recipients without a share are left out.
create function split_shares(of_account text, recorded_at timestamptz, amount bigint, fee bigint,
    OUT number int, OUT business_id text, OUT share_minor bigint) returns setof record language sql stable as $$
  select w.number, w.business_id, (least(w.up_to, w.rest) - w.up_to + w.wanted)::bigint
  from (
    select r.number, r.business_id, amount - fee as rest, x.wanted, sum(x.wanted) over (order by r.number) as up_to
    from (
        select v.id, case v.fee_bearer when 'SHARED' then amount - fee else amount end as base from account_split v
        where v.account_id = of_account and v.valid_from <= recorded_at order by v.valid_from desc limit 1
      ) s join account_split_recipient r on r.split_id = s.id
      cross join lateral (
        select coalesce(r.fixed_minor, div(s.base::numeric * r.basis_points, 10000)) as wanted
      ) x
  ) w where w.wanted > 0 and w.up_to - w.wanted < w.rest $$;
-- A settlement and a reversal of the same balance exclude each other until the commit, so each sees the postings
-- of the other if it reads them after it has the lock. Reversals share the lock.
create function lock_settled(business_id text, live boolean, is_reversal boolean) returns void language sql as $$
  select case when is_reversal then pg_advisory_xact_lock_shared(key) else pg_advisory_xact_lock(key) end
  from hashtextextended(case when live then 'live' else 'test' end || ' settled state of ' || business_id, 0) key $$;
-- Refuses a transition without its postings, written by the same statement or before. Recording a payment is
-- no transition: \`inflow ledger verify\` checks it. Settling is none of the status: see settlement_posted.
create function transaction_posted() returns trigger language plpgsql as $$
  declare
    wrong text;
  begin
    perform lock_settled(r.business_id, r.live, true) from (
      select distinct n.business_id, n.live from after_transition n join before_transition o using (id)
      where n.status = 'REVERSED' and o.status <> 'REVERSED' order by 1, 2) r;
    select n.id into wrong
    from after_transition n join before_transition o using (id) cross join lateral (
      select
        coalesce(sum(amount_minor) filter (where kind = 'payment'), 0) as payment,
        coalesce(sum(amount_minor) filter (where kind = 'settlement'), 0) as settlement,
        coalesce(sum(amount_minor) filter (where kind = 'fee'), 0) as fee,
        coalesce(sum(amount_minor) filter (where kind = 'acceptance'), 0) as acceptance,
        coalesce(sum(amount_minor) filter (where kind = 'acceptance_reversal'), 0) as acceptance_reversal,
        coalesce(sum(amount_minor) filter (where kind = 'payment_reversal'), 0) as payment_reversal,
        coalesce(sum(amount_minor) filter (where kind = 'settlement_reversal'), 0) as settlement_reversal,
        coalesce(sum(amount_minor) filter (where kind = 'fee_reversal'), 0) as fee_reversal,
        coalesce(sum(amount_minor) filter (where kind in ('split', 'split_reversal')), 0) as splits,
        coalesce(sum(amount_minor) filter (where kind = 'split'), 0) as split,
        jsonb_object_agg(left(kind, 7), jsonb_build_array(business_id, amount_minor))
          filter (where kind like 'share__') as shares,
        jsonb_object_agg(left(kind, 7), jsonb_build_array(business_id, amount_minor))
          filter (where kind like 'share__%reversal') as shares_reversal
      from ledger_posting p where p.transaction_id = n.id
    ) posted
    where n.status <> o.status and (
      payment <> case when n.status in ('SUCCESS', 'REVERSED') then n.amount_minor else 0 end
      or settlement > case when n.status = 'REVERSED' then n.amount_minor else 0 end
      or payment_reversal <> case when n.status = 'REVERSED' then payment else 0 end
      or acceptance_reversal <> case when n.status = 'REVERSED' then acceptance else 0 end
      or settlement_reversal <> case when n.status = 'REVERSED' then settlement else 0 end
      or fee_reversal <> case when n.status = 'REVERSED' then fee else 0 end
      or splits <> case when n.status = 'REVERSED' then 2 * split else 0 end
      or shares_reversal is distinct from case when n.status = 'REVERSED' then shares end)
    limit 1;
    if found then
      raise exception 'the ledger postings of % do not match its state', wrong
        using errcode = 'integrity_constraint_violation';
    end if;
    return null;
  end $$;
-- A transaction is settled by its posting: once, as the primary key has it, with the whole amount, the fee and the
-- shares of other businesses in one statement, and only while it is successful.
create function settlement_posted() returns trigger language plpgsql as $$
  declare
    wrong text;
  begin
    if not exists (select from added where kind in ('settlement', 'fee', 'acceptance', 'split') or kind like 'share__') then
      return null;
    end if;
    -- A held payment is accepted once, as the primary key has it, as a whole, and only while it is successful.
    select a.transaction_id into wrong
    from added a left join lateral (
      select t.amount_minor, t.business_id, t.live, t.status from transaction t where t.id = a.transaction_id offset 0
    ) t on true left join lateral (
      select p.amount_minor, p.credit_account from ledger_posting p
      where p.transaction_id = a.transaction_id and p.kind = 'payment' offset 0
    ) p on true
    where a.kind = 'acceptance' and (t.status, a.business_id, a.live, a.amount_minor, p.amount_minor, p.credit_account)
      is distinct from ('SUCCESS', t.business_id, t.live, t.amount_minor, t.amount_minor, 'held')
    limit 1;
    if found then
      raise exception 'the transaction % cannot be accepted so', wrong
        using errcode = 'integrity_constraint_violation';
    end if;
    perform lock_settled(b.business_id, b.live, false) from (
      select distinct business_id, live from added where kind in ('settlement', 'fee') order by 1, 2) b;
    select s.transaction_id into wrong
    from (
      select transaction_id, sum(amount_minor) filter (where kind = 'settlement') as settlement,
        coalesce(sum(amount_minor) filter (where kind = 'fee'), 0) as fee,
        coalesce(sum(amount_minor) filter (where kind = 'split'), 0) as split,
        coalesce(sum(amount_minor) filter (where kind like 'share__'), 0) as shares,
        array_agg(distinct business_id) filter (where kind not like 'share__') as owners,
        coalesce(array_agg(business_id) filter (where kind like 'share__'), '{}') as recipients,
        array_agg(distinct live) as modes, count(distinct settlement_id) as settlements
      from added where kind in ('settlement', 'fee', 'split') or kind like 'share__' group by transaction_id
    ) s cross join lateral (
      select business_id, live, amount_minor, status from transaction t where t.id = s.transaction_id offset 0
    ) t cross join lateral (
      select coalesce(sum(amount_minor) filter (where kind in ('payment', 'acceptance') and credit_account = 'pending'),
          0) as payment,
        count(*) filter (where kind like '%reversal') as reversals
      from ledger_posting p where p.transaction_id = s.transaction_id
    ) posted
    where t.status <> 'SUCCESS' or (owners, modes) is distinct from (array[t.business_id], array[t.live])
      or t.business_id = any (recipients) or settlements <> 1 or settlement is distinct from t.amount_minor
      or fee + split > t.amount_minor or split <> shares or payment <> t.amount_minor or reversals > 0
    limit 1;
    if found then
      raise exception 'the transaction % cannot be settled so', wrong
        using errcode = 'integrity_constraint_violation';
    end if;
    return null;
  end $$;
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
-- A version is removed only with its account, whose opening failed.
create function split_kept() returns trigger language plpgsql as $$
  begin
    if exists (select from account where id = to_jsonb(old) ->> 'account_id')
      or exists (select from account_split where id = to_jsonb(old) ->> 'split_id') then
      raise exception 'rows of % are never changed or removed', tg_table_name
        using errcode = 'integrity_constraint_violation';
    end if;
    return old;
  end $$;
create function account_id_guard() returns trigger language plpgsql as $$
  begin
    if new.id <> old.id then
      raise exception 'the id of an account cannot change' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
create function account_delete_guard() returns trigger language plpgsql as $$
  begin
    if old.status <> 'PENDING' or exists (select from transaction where account_id = old.id) then
      raise exception 'an account that was ever open cannot be deleted' using errcode = 'integrity_constraint_violation';
    end if;
    return old;
  end $$;
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
`

const TRIGGERS = `
create trigger account_delete_guard before DELETE on account for each ROW execute function account_delete_guard();
create trigger account_id_guard before UPDATE of id on account for each ROW execute function account_id_guard();
create trigger account_mode_guard before UPDATE of live on account for each ROW execute function mode_guard();
create trigger account_not_truncated before TRUNCATE on account for each STATEMENT execute function append_only();
create trigger event_business_counter_append_only before UPDATE OR TRUNCATE on event_business_counter
  for each STATEMENT execute function append_only();
create trigger webhook_endpoint_mode_guard before UPDATE of live on webhook_endpoint
  for each ROW execute function mode_guard();
create trigger api_key_mode_guard before UPDATE of live on api_key for each ROW execute function mode_guard();
create trigger account_split_append_only before UPDATE OR TRUNCATE on account_split
  for each STATEMENT execute function append_only();
create trigger account_split_kept before DELETE on account_split for each ROW execute function split_kept();
create trigger account_split_recipient_append_only before UPDATE OR TRUNCATE on account_split_recipient
  for each STATEMENT execute function append_only();
create trigger account_split_recipient_kept before DELETE on account_split_recipient
  for each ROW execute function split_kept();
create trigger transaction_account_guard after INSERT on transaction
  REFERENCING NEW TABLE AS added for each STATEMENT execute function transaction_account_guard();
create trigger transaction_session_guard after INSERT on transaction
  REFERENCING NEW TABLE AS added for each STATEMENT execute function transaction_session_guard();
create trigger payment_session_append_only before DELETE OR UPDATE OR TRUNCATE on payment_session
  for each STATEMENT execute function append_only();
create trigger transaction_guard before UPDATE on transaction for each ROW execute function transaction_guard();
create trigger transaction_kept before DELETE OR TRUNCATE on transaction
  for each STATEMENT execute function append_only();
create trigger transaction_posted after UPDATE on transaction
  REFERENCING OLD TABLE AS before_transition NEW TABLE AS after_transition for each STATEMENT execute function transaction_posted();
create trigger ledger_posting_append_only before DELETE OR UPDATE OR TRUNCATE on ledger_posting
  for each STATEMENT execute function append_only();
create trigger posting_transaction_guard after INSERT on ledger_posting
  REFERENCING NEW TABLE AS added for each STATEMENT execute function transaction_reference_guard();
create trigger conflict_transaction_guard after INSERT on payment_conflict
  REFERENCING NEW TABLE AS added for each STATEMENT execute function transaction_reference_guard();
create trigger variance_transaction_guard after INSERT on payment_variance
  REFERENCING NEW TABLE AS added for each STATEMENT execute function transaction_reference_guard();
create trigger payment_variance_guard before UPDATE on payment_variance
  for each ROW execute function payment_variance_guard();
create trigger payment_variance_kept before DELETE OR TRUNCATE on payment_variance
  for each STATEMENT execute function append_only();
create trigger reversal_transaction_guard after INSERT on reversal
  REFERENCING NEW TABLE AS added for each STATEMENT execute function transaction_reference_guard();
create trigger settlement_posted after INSERT on ledger_posting
  REFERENCING NEW TABLE AS added for each STATEMENT execute function settlement_posted();
create trigger audit_entry_append_only before DELETE OR UPDATE OR TRUNCATE on audit_entry
  for each STATEMENT execute function append_only();
create trigger audit_entry_chain before INSERT on audit_entry for each ROW execute function audit_chain();
create trigger audit_head_guard before UPDATE of number, hash on audit_head for each ROW execute function audit_head_guard();
create trigger audit_mac_kept before DELETE OR TRUNCATE on audit_mac
  for each STATEMENT execute function append_only();
create trigger audit_head_kept before DELETE OR TRUNCATE on audit_head
  for each STATEMENT execute function append_only();
create trigger archived_entry_append_only before DELETE OR UPDATE OR TRUNCATE on archived_entry
  for each STATEMENT execute function append_only();
create trigger outbox_append_only before DELETE OR UPDATE OR TRUNCATE on outbox
  for each STATEMENT execute function append_only();
create trigger event_log_append_only before DELETE OR UPDATE OR TRUNCATE on event_log
  for each STATEMENT execute function append_only();
create trigger reversal_append_only before DELETE OR UPDATE OR TRUNCATE on reversal
  for each STATEMENT execute function append_only();
create trigger settlement_delete_guard before DELETE OR TRUNCATE on settlement
  for each STATEMENT execute function append_only();
create trigger settlement_guard before UPDATE on settlement for each ROW execute function settlement_guard();
`

const ROWS = `
insert into audit_head (id, number, hash, mac) values (1, 0, decode(repeat('00', 32), 'hex'), '');
insert into event_epoch (epoch, start_position, started_at) values (1, 0, now());
insert into sequencer_tick (tick, epoch, position, snapshot, done_seq, system_identifier, timeline, base_seq,
    low_seq, low_position, next_low_seq, next_low_position, next_low_xid)
  select 1, 1, 0, pg_current_snapshot(), 0, system_identifier, timeline, 0, 0, 0, 0, 0,
    pg_current_xact_id() from current_cluster();
insert into event_retention (id, floor, archived, next_run_at) values (1, 0, 0, now());
insert into webhook_dispatcher (position) values (0);
insert into log_follower (name, position, epoch) values ('figures', 0, 1), ('settlement', 0, 1);
insert into settlement_sweep (id, next_at, after_business_id, after_live, is_expected) values (1, now(), '', false, true);
select protect_partition(inhrelid::regclass) from pg_inherits join pg_class on oid = inhrelid where relkind = 'r';
`
