create table ledger_posting (
  transaction_id text collate "C" not null,
  "kind" text not null,
  business_id text not null,
  debit_account text not null,
  credit_account text not null,
  amount_minor bigint not null,
  created_at timestamptz(3) not null,
  live boolean not null,
  settlement_id text,
  primary key (transaction_id, kind),
  constraint ledger_posting_amount check (amount_minor > 0),
  constraint ledger_posting_movement check ( case kind when 'payment' then (credit_account in ('pending',
    'held') and starts_with(debit_account, 'clearing:') and settlement_id is null) when 'acceptance' then
    (debit_account = 'held' and credit_account = 'pending' and settlement_id is null) when 'settlement' then
    (debit_account = 'pending' and credit_account = 'available' and settlement_id is not null) when 'fee' then
    (debit_account = 'available' and credit_account = 'fees' and settlement_id is not null) when
    'fee_reversal' then (debit_account = 'fees' and credit_account = 'available' and settlement_id is null)
    when 'settlement_reversal' then (debit_account = 'available' and credit_account = 'pending' and
    settlement_id is null) when 'acceptance_reversal' then (debit_account = 'pending' and credit_account =
    'held' and settlement_id is null) when 'payment_reversal' then (debit_account in ('pending', 'held') and
    starts_with(credit_account, 'clearing:') and settlement_id is null) when 'split' then (debit_account =
    'available' and credit_account = 'splits' and settlement_id is not null) when 'split_reversal' then
    (debit_account = 'splits' and credit_account = 'available' and settlement_id is null) else (case when
    (kind ~ '^share_[1-5]$') then (debit_account = 'splits' and credit_account = 'available' and settlement_id
    is not null) else (kind ~ '^share_[1-5]_reversal$' and debit_account = 'available' and credit_account =
    'splits' and settlement_id is null) end) end),
  constraint ledger_posting_sides check (debit_account <> credit_account)
) partition by range (transaction_id);
create index ledger_posting_share_index on ledger_posting (business_id, live, settlement_id) where
  starts_with(kind, 'share_');

create table ledger_posting_rest partition of ledger_posting for values from (minvalue) to (maxvalue) with (
  autovacuum_vacuum_insert_scale_factor=0, autovacuum_vacuum_insert_threshold=1000000, autovacuum_freeze_min_age=0);
create trigger ledger_posting_append_only before delete or update or truncate on ledger_posting
  for each statement execute function append_only();
create trigger posting_transaction_guard after insert on ledger_posting
  referencing new table as added for each statement execute function transaction_reference_guard();

-- Refuses a transition without its postings, written by the same statement or before. Recording a payment is
-- no transition: `inflow ledger verify` checks it. Settling is none of the status: see settlement_posted.
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
create trigger transaction_posted after update on transaction
  referencing OLD TABLE AS before_transition new table as after_transition for each statement execute function transaction_posted();

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
create trigger settlement_posted after insert on ledger_posting
  referencing new table as added for each statement execute function settlement_posted();
