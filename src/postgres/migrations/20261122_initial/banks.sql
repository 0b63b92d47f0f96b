create table bank_breaker (
  bank text not null,
  process_id text not null,
  state text not null,
  denial text not null default '',
  opened_at timestamptz(3) not null,
  seen_at timestamptz(3) not null,
  primary key (bank, process_id)
);

create sequence sandbox_serial increment 256 start 200000000 maxvalue 999999999;

create table bank_notification (
  id text primary key,
  bank text not null,
  body_digest bytea not null,
  received_at timestamptz(3) not null,
  raw_encrypted bytea not null,
  bank_key text not null,
  state text not null,
  outcome text not null,
  cause text not null,
  tries int not null,
  next_try_at timestamptz(3),
  account_number text not null default '',
  session_id text not null default '',
  amount_minor bigint not null default 0,
  resolved_at timestamptz(3),
  note text not null default '',
  refused boolean not null default false,
  constraint bank_notification_bank_body_digest_unique unique (bank, body_digest),
  constraint bank_notification_pending check ((state = 'PENDING') = (next_try_at is not null)),
  constraint bank_notification_state check (state in ('PENDING', 'PROCESSED', 'MANUAL_REVIEW'))
);
create index bank_notification_due_index on bank_notification (next_try_at) where (state = 'PENDING');
create index bank_notification_manual_review_index on bank_notification (id) where (state = 'MANUAL_REVIEW');
create index bank_notification_payment_index on bank_notification (bank_key, bank, id) where bank_key <> '';
create index bank_notification_received_at_index on bank_notification (received_at);

create table bank_payment_key (
  bank text not null,
  bank_key text not null,
  session_id text not null,
  created_at timestamptz(3) not null,
  primary key (bank, bank_key),
  constraint bank_payment_key_session_id_bank_unique unique (session_id, bank)
);

create table reconciliation_run (
  bank text not null,
  scope text not null,
  in_progress boolean not null,
  from_at timestamptz(3) not null,
  to_at timestamptz(3) not null,
  cursor text not null,
  missed int not null,
  failures int not null,
  next_at timestamptz(3) not null,
  primary key (bank, scope)
);
