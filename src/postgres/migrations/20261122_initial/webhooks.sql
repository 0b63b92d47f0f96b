-- A row for each move, of which the highest counts. Thresholds are absolute, as it has no size to take a share of: it
-- is vacuumed once a page or two is dead, and analysed often, so that no plan of when it was one page scans many.
create table webhook_dispatcher (
  "position" bigint primary key
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500, autovacuum_vacuum_insert_threshold=-1, autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=500);

create table webhook_endpoint (
  id text primary key,
  business_id text not null,
  url text not null,
  kinds text[] not null,
  description text not null,
  concurrency int not null,
  after_position bigint not null,
  created_at timestamptz(3) not null,
  failing_since timestamptz(3),
  warned_at timestamptz(3),
  disabled_at timestamptz(3),
  disabled_reason text,
  deleted_at timestamptz(3),
  live boolean not null,
  dropped_sequence bigint not null default 0,
  connection_version int not null default 0,
  connection_encrypted bytea,
  certificate_expires_at timestamptz(3),
  rate_limit int not null default 0,
  ordered boolean not null default false,
  ordered_from bigint not null default 0,
  constraint webhook_endpoint_business_id_foreign foreign key (business_id) references business(id),
  constraint webhook_endpoint_rate_limit check (rate_limit >= 0 and rate_limit <= 1000),
  constraint webhook_endpoint_concurrency check (concurrency >= 1 and concurrency <= 50),
  constraint webhook_endpoint_disabled check (((disabled_at is null) = (disabled_reason is null)) and
    disabled_reason in ('REQUESTED', 'GONE', 'FAILING'))
);
create index webhook_endpoint_business_id_id_index on webhook_endpoint (business_id, id);
create index webhook_endpoint_connection_index on webhook_endpoint (id) where (connection_encrypted is not null);
create index webhook_endpoint_failing_index on webhook_endpoint (live, (coalesce(failing_since, disabled_at)), id)
  where (deleted_at is null and ((disabled_at is null and failing_since is not null) or disabled_reason <>
  'REQUESTED'));

create table webhook_secret (
  endpoint_id text not null,
  "number" int not null,
  secret_encrypted bytea not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3),
  primary key (endpoint_id, number),
  constraint webhook_secret_endpoint_id_foreign foreign key (endpoint_id) references webhook_endpoint(id)
);

-- No foreign key to webhook_endpoint: to drop a partition would wait for, and hold up, all that use endpoints.
-- Deliveries are made of endpoints read by the same statement, and an endpoint is purged after its last delivery.
create table webhook_delivery (
  id text not null,
  endpoint_id text not null,
  "position" bigint not null,
  state text not null,
  attempts int not null,
  schedule_from int not null default 0,
  due_at timestamptz(3) not null,
  claims int not null,
  created_at timestamptz(3) not null,
  completed_at timestamptz(3),
  failure text,
  leased_until timestamptz(3),
  started_at timestamptz(3),
  latency_ms int,
  status int,
  response_body text,
  error text,
  sequence bigint not null default 0,
  previous_sequence bigint not null default 0,
  constraint webhook_delivery_endpoint_id_position_unique unique (endpoint_id, "position"),
  constraint webhook_delivery_completed check (((completed_at is null) = (state = 'PENDING')) and ((failure is
    null) = (state <> 'FAILED'))),
  constraint webhook_delivery_state check (state in ('PENDING', 'DELIVERED', 'FAILED')),
  primary key (id, "position")
) partition by range ("position");
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
  delivery_id text not null,
  "number" int not null,
  "position" bigint not null,
  started_at timestamptz(3) not null,
  latency_ms int not null,
  status int,
  response_body text not null,
  error text not null,
  primary key (delivery_id, number, "position")
) partition by range ("position");

-- Only added to, so pages are full; frozen while they are in memory, and not again before the partition is dropped.
create table webhook_attempt_rest partition of webhook_attempt for values from (minvalue) to (maxvalue)
  with (autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=50000);

-- Both are added to in place, by upserts; pages have room for the versions of a row.
create table webhook_hour (
  business_id text not null,
  live boolean not null,
  hour timestamptz(3) not null,
  attempts bigint not null,
  delivered bigint not null,
  failed bigint not null,
  delays int[] not null,
  primary key (business_id, live, hour)
) with (fillfactor=50);
create index webhook_hour_hour_index on webhook_hour (hour);

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
create trigger webhook_endpoint_mode_guard before update of live on webhook_endpoint
  for each row execute function mode_guard();
insert into webhook_dispatcher (position) values (0);
