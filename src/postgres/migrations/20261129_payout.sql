-- Payouts, their postings and history, and the rules that they obey.

-- One payout. Its amount, fee and duty are reserved in the commit that requests it. `bank_reference` is our reference at
-- the bank; it never changes. `next_at`: when the payout is next sent, looked up at its bank, or expires. `claims` counts
-- the claims of instances, so that an instance whose claim has been superseded changes nothing. `generation`: see
-- payout_sender. Only the return of an unmatched payment has no business: its money was never credited to one.
create table payout (
  id text collate "C" primary key,
  business_id text,
  live boolean not null,
  reference text not null,
  purpose text not null,
  status text not null,
  source text not null,
  amount_minor bigint not null,
  fee_minor bigint not null,
  duty_minor bigint not null,
  bank_code text not null,
  bank_name text not null,
  account_number text not null,
  account_name text not null,
  narration text not null,
  resolved_bank text,
  enquiry_reference text not null,
  bank text,
  bank_reference text not null,
  routing text not null default '',
  session_id text not null default '',
  failure_reason text not null default '',
  detail text not null default '',
  requested_by text not null,
  approval_reason text not null,
  decided_by text not null default '',
  decision_note text not null default '',
  created_at timestamptz(3) not null,
  expires_at timestamptz(3),
  next_at timestamptz(3),
  submitted_at timestamptz(3),
  completed_at timestamptz(3),
  claims int not null default 0,
  attempts int not null default 0,
  transaction_id text collate "C",
  refunded_session_id text not null default '',
  unmatched_payment_id text,
  -- The bank at which the unmatched payment arrived.
  unmatched_bank text,
  settlement_id text,
  batch_id text collate "C",
  generation int not null,
  constraint payout_business_id_live_reference_unique unique (business_id, live, reference),
  constraint payout_bank_reference_unique unique (bank_reference),
  constraint payout_business_id_foreign foreign key (business_id) references business (id),
  constraint payout_amount check (amount_minor > 0 and fee_minor >= 0 and duty_minor >= 0),
  constraint payout_purpose check (purpose in ('PAYOUT', 'REFUND', 'SETTLEMENT')
    and (purpose = 'REFUND') = (num_nonnulls(transaction_id, unmatched_payment_id) = 1)
    and (purpose = 'SETTLEMENT') = (settlement_id is not null)),
  constraint payout_source check (source in ('available', 'pending', 'held', 'unmatched')),
  constraint payout_unmatched check (case when source = 'unmatched' then live and business_id is null
    and unmatched_payment_id is not null and unmatched_bank is not null and refunded_session_id <> ''
    and fee_minor = 0 and duty_minor = 0 and batch_id is null
    else business_id is not null and unmatched_payment_id is null and unmatched_bank is null end),
  constraint payout_status check (status in ('PENDING_APPROVAL', 'APPROVED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW',
    'PAID', 'FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')),
  constraint payout_completed check ((completed_at is not null) = (status in ('PAID', 'FAILED', 'REJECTED', 'CANCELLED',
    'EXPIRED', 'RETURNED'))),
  constraint payout_submitted check ((submitted_at is null) = (bank is null) and (status in ('PENDING_APPROVAL',
    'APPROVED', 'FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED') or bank is not null))
);
create index payout_business_id_live_id_index on payout (business_id, live, id) include (status, purpose);
create index payout_live_id_index on payout (live, id) include (status, purpose);
create index payout_due_index on payout (next_at) where next_at is not null;
create index payout_open_index on payout (business_id, live, id) include (amount_minor, fee_minor, duty_minor, bank)
  where completed_at is null;
create index payout_open_id_index on payout (live, id) where completed_at is null;
create index payout_in_progress_index on payout (bank, live) include (amount_minor)
  where status in ('SUBMITTING', 'UNKNOWN');
create index payout_transaction_index on payout (transaction_id, id) where transaction_id is not null;
-- The money of a session is returned at most once, even if several reports describe the session.
create unique index payout_unmatched_unique on payout (refunded_session_id, unmatched_bank)
  where unmatched_payment_id is not null and status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED');
create index payout_unmatched_index on payout (refunded_session_id, unmatched_bank, id) where unmatched_payment_id is not null;
create index payout_settlement_index on payout (settlement_id) where settlement_id is not null;
create index payout_batch_index on payout (batch_id, id) where batch_id is not null;
create index payout_account_index on payout (account_number, id);
create index payout_reference_index on payout (reference);
create index payout_session_index on payout (session_id) where session_id <> '';
create index payout_approval_index on payout (id) where status = 'PENDING_APPROVAL';
create index payout_unclear_index on payout (id) where status in ('UNKNOWN', 'MANUAL_REVIEW');
create index payout_paid_index on payout (bank, live, completed_at) where status = 'PAID';

-- The period in which this copy of the database sends payouts: one row. A generation begins when the database was
-- restored or failed over. It also begins when no instance has run for five minutes, because the database may then be an
-- older copy. A payout of an earlier generation may have been sent without this copy knowing, so the banks are asked
-- first. After a restore or a failover the banks are also asked about new payouts, until `repeats_until`, because callers
-- may repeat requests that were lost.
create table payout_sender (
  id int primary key,
  generation int not null,
  epoch int not null,
  system_identifier bigint,
  timeline int,
  began_at timestamptz(3),
  alive_at timestamptz(3),
  repeats_until timestamptz(3),
  -- From this time on, another copy may have sent payouts that this copy does not know.
  silent_since timestamptz(3),
  constraint payout_sender_one_row check (id = 1)
);
insert into payout_sender (id, generation, epoch) values (1, 1, 0);

-- The current generation, and when it began. Null after a failover or a restore until the sequencer has noticed it;
-- nothing may be sent before that. The statement that claims payouts calls it, so that both see the same server.
create function payout_generation(OUT generation integer, OUT began_at timestamptz, OUT silent_since timestamptz)
  language plpgsql as $$
  declare
    sender payout_sender%rowtype;
    log record;
    was_silent boolean;
    is_same_cluster boolean;
  begin
    select s.epoch, c.system_identifier, c.timeline,
      (s.system_identifier, s.timeline) = (c.system_identifier, c.timeline) as is_current
    into strict log from sequencer s cross join current_cluster() c;
    if not log.is_current then
      return;
    end if;
    select * into strict sender from payout_sender;
    if sender.epoch <> log.epoch or sender.alive_at < now() - interval '5 minutes' then
      select * into strict sender from payout_sender for update;
      was_silent := sender.alive_at < now() - interval '5 minutes';
      is_same_cluster := (sender.system_identifier, sender.timeline) = (log.system_identifier, log.timeline);
      -- Another instance may have begun the generation in the meantime. Nothing was sent before the first generation.
      if sender.epoch <> log.epoch or was_silent then
        update payout_sender p set epoch = log.epoch, system_identifier = log.system_identifier,
          timeline = log.timeline, alive_at = now(), began_at = now(),
          silent_since = case when was_silent or not is_same_cluster then sender.alive_at
            else coalesce(p.silent_since, sender.alive_at) end,
          generation = case when sender.alive_at is null then p.generation else p.generation + 1 end,
          -- A failover may have lost a payout that was sent a second ago, and its caller may repeat the request.
          repeats_until = case when sender.epoch <> log.epoch and sender.alive_at is not null
            then now() + interval '1 day' else p.repeats_until end
        returning p.* into strict sender;
        update payout p set next_at = now()
        where p.status = 'PENDING_APPROVAL' and p.completed_at is null and p.generation <> sender.generation;
      end if;
    elsif sender.alive_at < now() - interval '20 seconds' then
      update payout_sender p set alive_at = now()
      where p.id = (select id from payout_sender for update skip locked) and p.alive_at = sender.alive_at;
    end if;
    generation := sender.generation;
    began_at := sender.began_at;
    silent_since := sender.silent_since;
  end $$;

-- The history of a payout, in order.
create table payout_step (
  payout_id text collate "C" not null,
  number int not null,
  at timestamptz(3) not null,
  status text not null,
  actor text not null,
  text text not null,
  primary key (payout_id, number),
  constraint payout_step_payout_id_foreign foreign key (payout_id) references payout (id)
);
create trigger payout_step_append_only before delete or update or truncate on payout_step
  for each statement execute function append_only();

-- One ledger posting of a payout. The primary key allows one posting of each kind.
create table payout_posting (
  payout_id text collate "C" not null,
  kind text not null,
  debit_account text not null,
  credit_account text not null,
  amount_minor bigint not null,
  created_at timestamptz(3) not null,
  primary key (payout_id, kind),
  constraint payout_posting_payout_id_foreign foreign key (payout_id) references payout (id),
  constraint payout_posting_amount check (amount_minor > 0),
  constraint payout_posting_movement check (case kind
    when 'reservation' then debit_account in ('available', 'pending', 'held', 'unmatched') and credit_account = 'reserved'
    when 'payment' then debit_account = 'reserved' and credit_account in ('paid_out', 'held')
    when 'fee' then debit_account = 'reserved' and credit_account = 'fees'
    when 'duty' then debit_account = 'reserved' and credit_account = 'duty'
    when 'release' then debit_account = 'reserved' and credit_account in ('available', 'pending', 'held', 'unmatched')
    when 'return' then debit_account = 'paid_out' and credit_account in ('available', 'unmatched')
    else false end)
);
create trigger payout_posting_append_only before delete or update or truncate on payout_posting
  for each statement execute function append_only();

-- The legal transitions: see src/payouts/payout.ts.
create function payout_guard() returns trigger language plpgsql as $$
  begin
    if (new.id, new.business_id, new.live, new.reference, new.purpose, new.source, new.amount_minor, new.fee_minor,
        new.duty_minor, new.bank_code, new.account_number, new.account_name, new.bank_reference, new.requested_by,
        new.transaction_id, new.unmatched_payment_id, new.unmatched_bank, new.refunded_session_id, new.settlement_id,
        new.batch_id, new.created_at)
      is distinct from (old.id, old.business_id, old.live, old.reference, old.purpose, old.source, old.amount_minor,
        old.fee_minor, old.duty_minor, old.bank_code, old.account_number, old.account_name, old.bank_reference,
        old.requested_by, old.transaction_id, old.unmatched_payment_id, old.unmatched_bank, old.refunded_session_id,
        old.settlement_id, old.batch_id, old.created_at)
      -- The bank cannot change once the payout may have been sent to it.
      or (old.status in ('UNKNOWN', 'MANUAL_REVIEW', 'PAID') and new.bank is distinct from old.bank) then
      raise exception 'a requested payout cannot be changed' using errcode = 'integrity_constraint_violation';
    end if;
    if new.status <> old.status and not (case old.status
        when 'PENDING_APPROVAL' then new.status in ('APPROVED', 'REJECTED', 'CANCELLED', 'EXPIRED')
        when 'APPROVED' then new.status in ('SUBMITTING', 'CANCELLED')
        when 'SUBMITTING' then new.status in ('PAID', 'FAILED', 'UNKNOWN', 'APPROVED')
        when 'UNKNOWN' then new.status in ('PAID', 'FAILED', 'MANUAL_REVIEW')
        when 'MANUAL_REVIEW' then new.status in ('PAID', 'FAILED', 'UNKNOWN', 'APPROVED')
        when 'PAID' then new.status = 'RETURNED'
        else false end) then
      raise exception 'a payout cannot go from % to %', old.status, new.status
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
create trigger payout_guard before update on payout for each row execute function payout_guard();
create trigger payout_kept before delete or truncate on payout for each statement execute function append_only();

-- Rejects, at the commit, a status whose postings are missing.
create function payout_posted() returns trigger language plpgsql as $$
  declare
    is_posted boolean;
  begin
    -- A later change in the same transaction is checked by itself.
    if not exists (select from payout where id = new.id and status = new.status) then
      return null;
    end if;
    select coalesce(sum(amount_minor) filter (where p.kind = 'reservation' and p.debit_account = new.source), 0)
        = new.amount_minor + new.fee_minor + new.duty_minor
      and coalesce(sum(amount_minor) filter (where p.kind = 'payment'), 0)
        = case when new.status in ('PAID', 'RETURNED') then new.amount_minor else 0 end
      and coalesce(sum(amount_minor) filter (where p.kind = 'fee'), 0)
        = case when new.status in ('PAID', 'RETURNED') then new.fee_minor else 0 end
      and coalesce(sum(amount_minor) filter (where p.kind = 'duty'), 0)
        = case when new.status in ('PAID', 'RETURNED') then new.duty_minor else 0 end
      and coalesce(sum(amount_minor) filter (where p.kind = 'release'), 0)
        = case when new.status in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED')
          then new.amount_minor + new.fee_minor + new.duty_minor else 0 end
      -- If the refunded payment has settled since, its money is released to the available balance.
      and coalesce(bool_and(p.credit_account = case when new.source = 'pending' and exists (
          select from ledger_posting l where l.transaction_id = new.transaction_id and l.kind = 'settlement')
        then 'available' else new.source end) filter (where p.kind = 'release'), true)
      and coalesce(sum(amount_minor) filter (where p.kind = 'return'), 0)
        = case when new.status = 'RETURNED' then new.amount_minor else 0 end
      and coalesce(bool_and(p.credit_account = case when new.source = 'unmatched' then 'unmatched' else 'available' end)
        filter (where p.kind = 'return'), true)
    into is_posted from payout_posting p where p.payout_id = new.id;
    if not is_posted then
      raise exception 'the postings of % do not match its status', new.id
        using errcode = 'integrity_constraint_violation';
    end if;
    if new.source = 'unmatched' and (
        select coalesce(u.payout_id = new.id, false) and u.resolution = case new.status when 'PAID' then 'RETURNED'
          else 'RETURNING' end and u.amount_minor = new.amount_minor and u.session_id = new.refunded_session_id
          and u.bank = new.unmatched_bank and u.status = 'SUCCESS'
        from unmatched_payment u where u.id = new.unmatched_payment_id
      ) is distinct from (new.status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')) then
      raise exception 'the unmatched payment of % does not match its status', new.id
        using errcode = 'integrity_constraint_violation';
    end if;
    return null;
  end $$;
create constraint trigger payout_posted after insert or update of status on payout deferrable initially deferred
  for each row execute function payout_posted();

-- An unmatched payment names the payout that returns it while that payout is in progress or paid. During that time it can
-- be neither recorded for an account nor returned again. It is open again once the payout fails, ends without being sent,
-- or is sent back.
alter table unmatched_payment
  add column payout_id text collate "C",
  drop constraint unmatched_payment_resolution,
  add constraint unmatched_payment_resolution check (resolution in ('ASSIGNED', 'RETURNED', 'RETURNING')),
  add constraint unmatched_payment_payout check (case resolution when 'RETURNING' then payout_id is not null
    when 'RETURNED' then true else payout_id is null end);
create index unmatched_payment_payout_index on unmatched_payment (payout_id) where payout_id is not null;
create function unmatched_payment_guard() returns trigger language plpgsql as $$
  begin
    if new.resolution = 'ASSIGNED' and old.resolution is null and exists (
        select from unmatched_payment u
        where u.session_id = new.session_id and u.bank = new.bank and u.payout_id is not null) then
      raise exception 'the payment of % is returned', new.id using errcode = 'integrity_constraint_violation';
    end if;
    if new.payout_id is distinct from old.payout_id and new.payout_id is not null and not exists (
        select from payout p
        where p.id = new.payout_id and (p.refunded_session_id, p.unmatched_bank) = (new.session_id, new.bank)) then
      raise exception 'the payout % does not return %', new.payout_id, new.id
        using errcode = 'integrity_constraint_violation';
    end if;
    if (new.resolution, new.payout_id) is distinct from (old.resolution, old.payout_id) and old.resolution is not null
      and not exists (
        select from payout p
        where p.id = old.payout_id and case new.resolution
            when 'RETURNED' then old.resolution = 'RETURNING' and new.payout_id = old.payout_id and p.status = 'PAID'
            else new.resolution is null and p.status in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED') end) then
      raise exception 'an unmatched payment cannot go from % to %', old.resolution, new.resolution
        using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
create trigger unmatched_payment_guard before update on unmatched_payment
  for each row execute function unmatched_payment_guard();

-- The sum that is reserved for payouts of a business that are not final. Held payments are in no balance.
create function reserved_minor(of_business text, in_live boolean) returns numeric language sql stable as $$
  select coalesce(sum(amount_minor + fee_minor + duty_minor), 0) from payout
  where business_id = of_business and live = in_live and completed_at is null and source <> 'held' $$;

-- The sum that a business requested on a day in Lagos, less the payouts that were not paid. Limits are checked against it.
-- Returns of unmatched payments have no business: their business id is empty, here and in payout_beneficiary.
create table payout_day (
  business_id text not null,
  live boolean not null,
  day date not null,
  requested_minor bigint not null,
  primary key (business_id, live, day),
  constraint payout_day_requested check (requested_minor >= 0)
);
create index payout_day_live_day_index on payout_day (live, day);

-- The beneficiaries of a business, from the first payout that needed no approval or was approved. The cool-down of new
-- beneficiaries uses it.
create table payout_beneficiary (
  business_id text not null,
  live boolean not null,
  bank_code text not null,
  account_number text not null,
  account_name text not null,
  first_used_at timestamptz(3) not null,
  last_used_at timestamptz(3) not null,
  primary key (business_id, live, bank_code, account_number)
);
create index payout_beneficiary_last_used_index
  on payout_beneficiary (business_id, live, last_used_at, bank_code, account_number);

-- The refunds of a payment, paid or reserved; together they never exceed the credited amount. `pending_minor` is the part
-- that refunds took from the pending balance and did not release there; a settlement settles the rest of the payment.
create table payout_refund (
  transaction_id text collate "C" primary key,
  amount_minor bigint not null,
  refunded_minor bigint not null,
  pending_minor bigint not null,
  constraint payout_refund_refunded check (refunded_minor >= 0 and refunded_minor <= amount_minor),
  constraint payout_refund_pending check (pending_minor >= 0 and pending_minor <= amount_minor)
);

create function refunded_minor(of_transaction text) returns bigint language sql stable as $$
  select coalesce((select refunded_minor from payout_refund where transaction_id = of_transaction), 0) $$;

-- The pending money of a payment that refunds took; no row: none. PostgreSQL inlines the function into the statement that
-- joins it, so settling payments without refunds costs no calls.
create function refunded_pending(of_transaction text) returns setof bigint language sql stable rows 1 as $$
  select pending_minor from payout_refund where transaction_id = of_transaction $$;

-- A refunded payment cannot be reversed, because its money would leave twice. If a refund from the pending balance failed
-- after the settlement, its money became available without a settlement posting, so a reversal could not mirror it.
create function refund_guard() returns trigger language plpgsql as $$
  begin
    if exists (select from payout_refund where transaction_id = new.id and (refunded_minor > 0 or pending_minor > 0)) then
      raise exception 'the payment % has refunds', new.id using errcode = 'integrity_constraint_violation';
    end if;
    return new;
  end $$;
create trigger refund_guard before update of status on transaction for each row
  when (new.status = 'REVERSED' and old.status <> 'REVERSED') execute function refund_guard();

-- A payment that was refunded while it was pending settles with the rest of its amount; the posting is zero if nothing is
-- left.
alter table ledger_posting drop constraint ledger_posting_amount,
  add constraint ledger_posting_amount check (amount_minor > 0 or (kind = 'settlement' and amount_minor = 0));
create or replace function settlement_posted() returns trigger language plpgsql as $$
  declare
    wrong text;
  begin
    if not exists (select from added where kind in ('settlement', 'fee', 'acceptance', 'split') or kind like 'share__') then
      return null;
    end if;
    -- A held payment is accepted as a whole, only while it is successful, and once (the primary key ensures that).
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
    ) posted left join lateral refunded_pending(s.transaction_id) r (minor) on true
    where t.status <> 'SUCCESS' or (owners, modes) is distinct from (array[t.business_id], array[t.live])
      or t.business_id = any (recipients) or settlements <> 1 or settlement is distinct from t.amount_minor - coalesce(r.minor, 0)
      or fee + split > settlement or split <> shares or payment <> t.amount_minor or reversals > 0
    limit 1;
    if found then
      raise exception 'the transaction % cannot be settled so', wrong
        using errcode = 'integrity_constraint_violation';
    end if;
    return null;
  end $$;

-- A pause of all payouts (scope GLOBAL, target empty), or of the payouts of a bank or a business.
create table payout_pause (
  scope text not null,
  target text not null,
  reason text not null,
  paused_by text not null,
  paused_at timestamptz(3) not null,
  primary key (scope, target),
  constraint payout_pause_scope check (case scope when 'GLOBAL' then target = '' else scope in ('BANK', 'BUSINESS')
    and target <> '' end)
);
create index payout_pause_paused_at_scope_target_index on payout_pause (paused_at, scope, target);

-- The rules of a business. The rules of the installation have an empty business id.
create table payout_policy (
  business_id text primary key,
  payout_max_minor bigint not null,
  daily_max_minor bigint not null,
  monthly_max_minor bigint not null,
  approval_above_minor bigint,
  cool_down_hours int not null,
  new_beneficiary_max_minor bigint not null,
  approval_hours int not null,
  fees jsonb not null,
  charge_duty boolean not null,
  settle_to jsonb,
  floor_minor bigint not null,
  updated_at timestamptz(3) not null,
  constraint payout_policy_settle_to check (settle_to is null or business_id <> '')
);

-- Payouts that were requested together. An item waits for a name enquiry as long as it has a `next_at`; after that it has
-- either a payout or a reason why it has none.
create table payout_batch (
  id text collate "C" primary key,
  business_id text not null,
  live boolean not null,
  reference text not null,
  count int not null,
  sum_minor bigint not null,
  details_hash text not null,
  requested_by text not null,
  approval_reason text not null,
  created_at timestamptz(3) not null,
  constraint payout_batch_business_id_live_reference_unique unique (business_id, live, reference)
);
create index payout_batch_business_id_id_index on payout_batch (business_id, id);
create table payout_item (
  batch_id text collate "C" not null,
  number int not null,
  reference text not null,
  amount_minor bigint not null,
  bank_code text not null,
  account_number text not null,
  account_name text not null,
  narration text not null,
  next_at timestamptz(3),
  reason text not null default '',
  detail text not null default '',
  primary key (batch_id, number)
);
create index payout_item_due_index on payout_item (next_at) where next_at is not null;

-- Completed settlements that are to be paid out. A follower of the event log finds them, from the current end of the log.
create table settlement_payout (
  settlement_id text primary key,
  business_id text not null,
  live boolean not null,
  net_minor bigint not null,
  refusals int not null default 0,
  detail text not null default '',
  next_at timestamptz(3)
);
create index settlement_payout_due_index on settlement_payout (next_at) where next_at is not null;
insert into log_follower (name, position, epoch) select 'payouts', position, epoch from sequencer;

-- The balance of the operator's account at a bank, as an instance last read it.
create table bank_float (
  bank text not null,
  live boolean not null,
  available_minor bigint,
  read_at timestamptz(3),
  error text not null,
  next_at timestamptz(3) not null,
  primary key (bank, live)
);

-- The transfers of payouts that the bank's list or a statement showed as paid. Two transfers for one payout are an alarm.
create table payout_listed (
  payout_id text collate "C" not null,
  session_id text not null,
  listed_at timestamptz(3) not null,
  primary key (payout_id, session_id),
  constraint payout_listed_payout_id_foreign foreign key (payout_id) references payout (id)
);

-- A difference between the transfers of a bank and the payouts. `line_key` identifies the transfer at the bank: our
-- reference, or the session id if the line has no reference.
create table payout_discrepancy (
  id text collate "C" primary key,
  kind text not null,
  bank text not null,
  live boolean not null,
  line_key text not null,
  bank_reference text not null,
  session_id text not null,
  payout_id text collate "C",
  amount_minor bigint not null,
  account_number text not null,
  text text not null,
  found_at timestamptz(3) not null,
  resolved_at timestamptz(3),
  resolved_by text not null default '',
  note text not null default '',
  constraint payout_discrepancy_line_unique unique (bank, live, line_key, kind),
  constraint payout_discrepancy_payout_id_foreign foreign key (payout_id) references payout (id),
  constraint payout_discrepancy_kind check (kind in ('MISSING_AT_BANK', 'MISSING_HERE', 'MISMATCHED', 'PAID_TWICE'))
);
create index payout_discrepancy_open_index on payout_discrepancy (id) where resolved_at is null;

-- Up to which time the outgoing transfers of each bank have been compared, and when the next run is due.
create table payout_reconciliation (
  bank text primary key,
  to_at timestamptz(3) not null,
  next_at timestamptz(3) not null
);

-- The scopes payouts:write and payouts:approve of tokens, and payouts of keys.
alter table internal_token drop constraint internal_token_scopes,
  add constraint internal_token_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read',
    'events:subscribe']);
alter table session drop constraint session_scopes,
  add constraint session_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read',
    'events:subscribe']);
alter table sign_in_code drop constraint sign_in_code_scopes,
  add constraint sign_in_code_scopes check (cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write',
    'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read',
    'events:subscribe']);
alter table portal_link drop constraint portal_link_scopes,
  add constraint portal_link_scopes check (cardinality(scopes) > 0 and scopes <@ array['payments:write',
    'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read',
    'events:subscribe']);
alter table api_key drop constraint api_key_scopes,
  add constraint api_key_scopes check (scopes <@ array['accounts:read', 'accounts:create', 'accounts:write',
    'payments:read', 'payments:decide', 'payments:requery', 'payments:simulate', 'events:read', 'balances:read',
    'webhooks:read', 'webhooks:write', 'payouts']);
