-- How the payments of an account are divided: the last version that is valid from their recording or before.
create table account_split (
  id text primary key,
  account_id text not null,
  valid_from timestamptz(3) not null,
  fee_bearer text not null,
  constraint account_split_account_id_valid_from_unique unique (account_id, valid_from),
  constraint account_split_account_id_foreign foreign key (account_id) references account(id) on delete
    cascade,
  constraint account_split_fee_bearer check (fee_bearer in ('OWNER', 'SHARED'))
);

create table split_approval (
  business_id text not null,
  recipient_id text not null,
  approved_at timestamptz(3) not null,
  primary key (business_id, recipient_id),
  constraint split_approval_business_id_foreign foreign key (business_id) references business(id),
  constraint split_approval_recipient_id_foreign foreign key (recipient_id) references business(id),
  constraint split_approval_recipient check (business_id <> recipient_id)
);

create table account_split_recipient (
  split_id text not null,
  "number" int not null,
  business_id text not null,
  basis_points int,
  fixed_minor bigint,
  primary key (split_id, number),
  constraint account_split_recipient_split_id_business_id_unique unique (split_id, business_id),
  constraint account_split_recipient_split_id_foreign foreign key (split_id) references account_split(id) on
    delete cascade,
  constraint account_split_recipient_business_id_foreign foreign key (business_id) references business(id),
  constraint account_split_recipient_number check ((number >= 1) and (number <= 5)),
  constraint account_split_recipient_share check (case when basis_points is null then (fixed_minor is not null
    and fixed_minor > 0) else (fixed_minor is null and basis_points > 0 and basis_points <= 10000) end)
);

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
create trigger account_split_append_only before update or truncate on account_split
  for each statement execute function append_only();
create trigger account_split_kept before delete on account_split for each row execute function split_kept();
create trigger account_split_recipient_append_only before update or truncate on account_split_recipient
  for each statement execute function append_only();
create trigger account_split_recipient_kept before delete on account_split_recipient
  for each row execute function split_kept();
