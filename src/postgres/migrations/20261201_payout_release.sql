-- The money of a refund from pending may come back after the settlement of its payment. It then bears the fee and the shares of
-- that settlement. A share belongs to its recipient.
alter table payout_posting
  add column business_id text,
  add constraint payout_posting_business check ((business_id is not null) = starts_with(kind, 'share_')),
  drop constraint payout_posting_movement,
  add constraint payout_posting_movement check (case kind
    when 'reservation' then debit_account in ('available', 'pending', 'held', 'unmatched') and credit_account = 'reserved'
    when 'payment' then debit_account = 'reserved' and credit_account in ('paid_out', 'held')
    when 'fee' then debit_account = 'reserved' and credit_account = 'fees'
    when 'duty' then debit_account = 'reserved' and credit_account = 'duty'
    when 'release' then debit_account = 'reserved' and credit_account in ('available', 'pending', 'held', 'unmatched')
    when 'return' then debit_account = 'paid_out' and credit_account in ('available', 'pending', 'unmatched')
    when 'settlement_fee' then debit_account = 'available' and credit_account = 'fees'
    when 'split' then debit_account = 'available' and credit_account = 'splits'
    else kind ~ '^share_[1-5]$' and debit_account = 'splits' and credit_account = 'available' end);
create index payout_posting_share_index on payout_posting (business_id) where business_id is not null;

-- The shares that a business got when money came back after the settlement of its payment, by that settlement.
create function returned_shares(of_business text, in_live boolean, OUT settlement_id text, OUT amount_minor bigint)
  returns setof record language sql stable as $$
  select settled.settlement_id, share.amount_minor
  from payout_posting share join payout on payout.id = share.payout_id
    join ledger_posting settled on settled.transaction_id = payout.transaction_id and settled.kind = 'settlement'
  where share.business_id = of_business and payout.live = in_live $$;

-- Rejects, at the commit, a status whose postings are missing.
create or replace function payout_posted() returns trigger language plpgsql as $$
  declare
    is_settled boolean;
    is_posted boolean;
  begin
    -- A later change in the same transaction is checked by itself.
    if not exists (select from payout where id = new.id and status = new.status) then
      return null;
    end if;
    is_settled := new.source = 'pending' and exists (
      select from ledger_posting l where l.transaction_id = new.transaction_id and l.kind = 'settlement');
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
      and coalesce(bool_and(p.credit_account = case when is_settled then 'available' else new.source end)
        filter (where p.kind = 'release'), true)
      and coalesce(sum(amount_minor) filter (where p.kind = 'return'), 0)
        = case when new.status = 'RETURNED' then new.amount_minor else 0 end
      -- Earlier versions return pending money to the available balance.
      and coalesce(bool_and(case when new.source = 'unmatched' then p.credit_account = 'unmatched'
          else p.credit_account = 'available' or p.credit_account = 'pending' and new.source = 'pending' and not is_settled end)
        filter (where p.kind = 'return'), true)
      -- Earlier versions take no fee and no shares of it.
      and coalesce(sum(amount_minor) filter (where p.kind in ('settlement_fee', 'split')), 0)
        <= case when is_settled and new.status not in ('PENDING_APPROVAL', 'APPROVED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW',
          'PAID') then new.amount_minor else 0 end
      and coalesce(sum(amount_minor) filter (where p.kind = 'split'), 0)
        = coalesce(sum(amount_minor) filter (where p.business_id is not null), 0)
      and coalesce(bool_and(p.business_id <> new.business_id), true)
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

-- The current generation, and when it began. Null after a failover or a restore until the sequencer has noticed it;
-- nothing may be sent before that. The statement that claims payouts calls it, so that both see the same server.
create or replace function payout_generation(OUT generation integer, OUT began_at timestamptz, OUT silent_since timestamptz)
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
            -- An epoch that is begun by hand follows the start of an older copy within days.
            else coalesce(case when p.began_at > now() - interval '7 days' then p.silent_since end, sender.alive_at) end,
          generation = case when sender.alive_at is null then p.generation else p.generation + 1 end,
          -- A failover may have lost a payout that was sent a second ago, and its caller may repeat the request.
          repeats_until = case when sender.epoch <> log.epoch and sender.alive_at is not null
            then now() + interval '1 day' else p.repeats_until end
        returning p.* into strict sender;
        update payout p set next_at = now()
        where p.status = 'PENDING_APPROVAL' and p.completed_at is null and p.generation <> sender.generation;
        -- If the clock of the earlier server was ahead, `next_at` lies too far in the future. A claim in progress keeps a
        -- lease. What is locked is being changed.
        update payout p set next_at = now() + interval '5 minutes'
        where p.id in (
          select o.id from payout o
          where o.completed_at is null and o.next_at > now() + interval '5 minutes' and o.status <> 'PENDING_APPROVAL'
          for update skip locked);
        update payout_item i set next_at = now()
        where (i.batch_id, i.number) in (
          select o.batch_id, o.number from payout_item o where o.next_at > now() for update skip locked);
        -- A refusal is followed by a day's wait, as each attempt counts.
        update settlement_payout s
        set next_at = case when s.refusals > 0 and s.detail <> '' then least(s.next_at, now() + interval '1 day') else now() end
        where s.settlement_id in (
          select o.settlement_id from settlement_payout o where o.next_at > now() for update skip locked);
        update payout_reconciliation r set next_at = now()
        where r.bank in (select o.bank from payout_reconciliation o where o.next_at > now() for update skip locked);
      end if;
    elsif sender.alive_at < now() - interval '20 seconds' then
      update payout_sender p set alive_at = now()
      where p.id = (select id from payout_sender for update skip locked) and p.alive_at = sender.alive_at;
    end if;
    generation := sender.generation;
    began_at := sender.began_at;
    silent_since := sender.silent_since;
  end $$;
