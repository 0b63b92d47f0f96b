-- A payout that is to be sent again may become UNKNOWN instead: its bank may never send it. The constraint payout_submitted
-- demands the bank that was sent it.
create or replace function payout_guard() returns trigger language plpgsql as $$
  begin
    if (new.id, new.business_id, new.live, new.reference, new.purpose, new.source, new.amount_minor, new.fee_minor,
        new.duty_minor, new.bank_code, new.account_number, new.account_name, new.bank_reference, new.requested_by,
        new.transaction_id, new.unmatched_payment_id, new.unmatched_bank, new.refunded_session_id, new.settlement_id,
        new.batch_id, new.created_at)
      is distinct from (old.id, old.business_id, old.live, old.reference, old.purpose, old.source, old.amount_minor,
        old.fee_minor, old.duty_minor, old.bank_code, old.account_number, old.account_name, old.bank_reference,
        old.requested_by, old.transaction_id, old.unmatched_payment_id, old.unmatched_bank, old.refunded_session_id,
        old.settlement_id, old.batch_id, old.created_at)
      -- The bank that may have been sent it is fixed.
      or (old.status in ('UNKNOWN', 'MANUAL_REVIEW', 'PAID') and new.bank is distinct from old.bank) then
      raise exception 'a requested payout cannot be changed' using errcode = 'integrity_constraint_violation';
    end if;
    if new.status <> old.status and not (case old.status
        when 'PENDING_APPROVAL' then new.status in ('APPROVED', 'REJECTED', 'CANCELLED', 'EXPIRED')
        when 'APPROVED' then new.status in ('SUBMITTING', 'CANCELLED', 'UNKNOWN')
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
