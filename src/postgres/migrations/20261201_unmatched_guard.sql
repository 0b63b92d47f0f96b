-- A payment that was returned outside Inflow is not recorded either, whatever another report of its session states.
create or replace function unmatched_payment_guard() returns trigger language plpgsql as $$
  begin
    if new.resolution = 'ASSIGNED' and old.resolution is null and exists (
        select from unmatched_payment u
        where u.session_id = new.session_id and u.bank = new.bank and u.resolution in ('RETURNED', 'RETURNING')) then
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
