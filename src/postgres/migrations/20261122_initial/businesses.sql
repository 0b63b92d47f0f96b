create table business (
  id text primary key,
  name text not null,
  alias text not null,
  created_at timestamptz(3) not null,
  rate_limit_per_second int,
  rate_limit_burst int,
  constraint business_rate_limit_check check ( case when (rate_limit_per_second is null) then
    (rate_limit_burst is null) else (rate_limit_per_second > 0 and (rate_limit_burst is null or
    (rate_limit_burst > 0 and (rate_limit_burst <= (60 * rate_limit_per_second))))) end)
);
create index business_alias_index on business (lower(alias) collate "C", id);
create index business_name_index on business (lower(name) collate "C", id);
