create table master_key (
  id text primary key,
  known_text bytea not null,
  created_at timestamptz(3) not null
);

create table master_key_holder (
  id text primary key,
  current_key_id text not null,
  known_key_ids text[] not null,
  version text not null,
  migration text not null,
  process text not null,
  started_at timestamptz(3) not null,
  seen_at timestamptz(3) not null
);
