import { mutationsOf } from './mutation.ts'

/** Money that leaves twice, above a limit, unapproved, or for another business. */
export const PAYOUTS = mutationsOf('payouts', ['test/payouts/payouts.test.ts'], {
  'src/postgres/migrations/20261129_payout.sql': {
    'a refunded payment can be reversed': [
      'and (refunded_minor > 0 or pending_minor > 0)',
      'and pending_minor > 0',
    ],
    'a failed payout keeps its reservation': [
      "case when new.status in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED')",
      "case when new.status in ('REJECTED', 'CANCELLED', 'EXPIRED')",
    ],
    'final payouts stay reserved': [
      'live = in_live and completed_at is null and source',
      'live = in_live and source',
    ],
  },
  'src/payouts/store.ts': {
    'an instance that comes late changes a payout': [
      'p.status = i.was and p.claims = i.claim',
      'p.status = i.was and i.claim is not null',
    ],
    'a decided payout is decided again': [
      'p.status = i.was and p.claims = i.claim',
      'i.was is not null and p.claims = i.claim',
    ],
    'a refused payout uses up the limit': [
      'where released_day is not null group by',
      'where released_day is null group by',
    ],
    'a payout that awaits an approval makes its beneficiary known': [
      "from input where approval_reason = ''",
      'from input',
    ],
  },
  'src/payouts/reserve-payout.ts': {
    'payouts of the other mode use up the limit': [
      'where business_id = $1 and live = $2 and day >=',
      'where business_id = $1 and day >=',
    ],
    'requests at once exceed what is available': [
      "'select lock_settled($1, $2, false)'",
      "'select $1::text, $2::boolean'",
    ],
    'many small payouts hide a large one': [
      `case when count(*) < \${EARLIER_MAX} then coalesce(sum(amount_minor), 0) end`,
      'coalesce(sum(amount_minor), 0)',
    ],
  },
  'src/payouts/decide-batch.ts': {
    'an expired payout is approved with its batch': [
      `
        and expires_at > now() order`,
      ' order',
    ],
  },
  'src/payouts/batch.ts': {
    'a batch of another business is decided': [
      'where b.id = $1 and b.business_id = $2',
      'where b.id = $1 and $2::text is not null',
    ],
  },
})
