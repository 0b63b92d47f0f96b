create table api_key (
  id text primary key,
  business_id text not null,
  prefix text not null,
  secret_hash bytea not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  live boolean not null,
  allowed_cidrs text[] not null,
  scopes text[] not null default '{}',
  last_used_at timestamptz(3),
  constraint api_key_scopes check (scopes <@ array['accounts:read', 'accounts:create', 'accounts:write',
    'payments:read', 'payments:decide', 'payments:requery', 'payments:simulate', 'events:read',
    'balances:read', 'webhooks:read', 'webhooks:write']),
  constraint api_key_business_id_foreign foreign key (business_id) references business(id)
);
create index api_key_business_id_id_index on api_key (business_id, id);
create trigger api_key_mode_guard before update of live on api_key for each row execute function mode_guard();

create table internal_token (
  id text primary key,
  name text not null,
  description text not null,
  prefix text not null,
  secret_hash bytea not null,
  scopes text[] not null,
  business_ids text[],
  created_at timestamptz(3) not null,
  expires_at timestamptz(3),
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  constraint internal_token_business_ids check ((cardinality(business_ids) > 0) and (cardinality(business_ids)
    <= 100)),
  constraint internal_token_scopes check ((cardinality(scopes) > 0) and (scopes <@ array['admin',
    'payments:write', 'payments:reverse', 'splits:write', 'read', 'events:subscribe']))
);

create table session (
  id text primary key,
  kind text not null,
  caller_id text not null,
  name text not null,
  scopes text[] not null,
  business_ids text[],
  secret_hash bytea not null,
  proof bytea,
  address text not null,
  created_at timestamptz(3) not null,
  last_used_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  constraint session_kind check (kind in ('token', 'oidc', 'portal')),
  constraint session_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'read', 'events:subscribe']),
  constraint session_business_ids check (cardinality(business_ids) > 0 and cardinality(business_ids) <= 100),
  constraint session_proof check ((kind = 'token' and caller_id = 'bootstrap') = (proof is not null)),
  constraint session_portal check (kind <> 'portal' or (business_ids is not null and not 'admin' = any
    (scopes)))
);
create index session_caller_id_id_index on session (caller_id, id);

create table sign_in_code (
  id text primary key,
  caller_id text not null,
  name text not null,
  scopes text[] not null,
  business_ids text[],
  secret_hash bytea not null,
  proof bytea,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  caller_expires_at timestamptz(3),
  constraint sign_in_code_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'read', 'events:subscribe']),
  constraint sign_in_code_business_ids check (cardinality(business_ids) > 0 and cardinality(business_ids) <=
    100),
  constraint sign_in_code_proof check ((caller_id = 'bootstrap') = (proof is not null))
);

create table portal_link (
  id text primary key,
  business_id text not null,
  scopes text[] not null,
  description text not null,
  secret_hash bytea not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  constraint portal_link_scopes check (cardinality(scopes) > 0 and scopes <@ array['payments:write',
    'payments:reverse', 'splits:write', 'read', 'events:subscribe'])
);
create index portal_link_business_id_id_index on portal_link (business_id, id);

-- Not logged: a crash loses only that callers were near their limits. Updated rows find room in their page.
create unlogged table rate_bucket (
  name text primary key,
  tokens double precision not null,
  per_second double precision not null,
  burst double precision not null,
  at timestamptz(3) not null
) with (fillfactor=50);
