-- The requests of businesses with their secret keys, kept for days.
create table api_request (
  id text primary key,
  business_id text not null,
  live boolean not null,
  failed boolean not null,
  key_id text not null,
  received_at timestamptz(3) not null,
  path text not null,
  protocol text not null,
  status int not null,
  duration_ms int not null,
  request_id text not null,
  address text not null,
  code text not null,
  error text not null,
  faults text not null,
  body text not null,
  bytes int not null
);
create index api_request_business_id_live_failed_id_index on api_request (business_id, live, failed, id);
