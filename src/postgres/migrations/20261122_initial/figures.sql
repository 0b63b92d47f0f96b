create table payment_hour (
  business_id text not null,
  live boolean not null,
  bank text not null,
  hour timestamptz(3) not null,
  payments bigint not null,
  amount_minor numeric(38,0) not null,
  reversals bigint not null,
  reversed_minor numeric(38,0) not null,
  last_at timestamptz(3),
  primary key (business_id, live, bank, hour)
) with (fillfactor=50);
create index payment_hour_hour_index on payment_hour (hour);
