import { mutationsOf } from './mutation.ts'

/** Money that is recorded twice, not at all, or shown to another business. */
export const TRANSACTIONS = mutationsOf(
  'transactions',
  [
    'test/notifications/',
    'test/protocols/rest/',
    'test/model/money.test.ts',
    'test/model/races.test.ts',
  ],
  {
    'src/transactions/store.ts': {
      'a payment into an account that is not open is recorded': [
        `where exists (select from account where account.id = i.account_id and account.live = i.live
            and account.status in ('ACTIVE', 'EXPIRED'))
          and not`,
        'where not',
      ],
      'a payment is not recorded because one of its session was returned at another bank': [
        'u.session_id = i.session_id and u.bank = i.bank and',
        'u.session_id = i.session_id and',
      ],
      'a payment that was recorded as pending is credited': [
        `payload, id, amount_minor
        from input where status = 'SUCCESS' and`,
        `payload, id, amount_minor
        from input where status <> 'FAILED' and`,
      ],
      'any of the reports in a statement is recorded': [
        'order by session_id, bank, live, at',
        'order by session_id, bank, live, at desc',
      ],
      'test money that arrives is taken for money that was returned': [
        'and not (i.live and exists',
        'and not (exists',
      ],
    },
    'src/transactions/queries.ts': {
      'a test key sees live transactions': [
        `join lateral (
        select t.* from (
            select transaction_id from payment_session s
            where s.session_id = k.session_id and s.live = coalesce(k.live, s.live) offset 0) s`,
        `join lateral (
        select t.* from (
            select transaction_id from payment_session s
            where s.session_id = k.session_id and s.live is not null offset 0) s`,
      ],
      'a test transaction hides the live one': [
        `order by t.live, t.id\`,
    values: sessionsValues(keys),
  })
  const found: (StoredTransaction`,
        `order by t.live desc, t.id\`,
    values: sessionsValues(keys),
  })
  const found: (StoredTransaction`,
      ],
      'a session at another bank is taken for this one': [
        's.session_id = k.session_id and s.bank = k.bank and',
        's.session_id = k.session_id and',
      ],
      'a decision does not see the one that it waited for': [
        `from transaction where id = $1
      for no key update\``,
        'from transaction where id = $1`',
      ],
    },
    'src/transactions/unmatched-store.ts': {
      'an unmatched payment is assigned although its session is recorded': [
        'where id = any ($9) and exists (select from recorded)',
        'where id = any ($9)',
      ],
      'a payment that is recorded can be returned': [
        's.bank = u.bank and s.live offset 0)',
        's.bank = u.bank and s.live and false offset 0)',
      ],
      'an assigned payment is assigned again': [
        'where n.id = $1 and n.resolution is null and u.resolution is null',
        'where n.id = $1',
      ],
    },
    'src/postgres/migrations/20261125_import.sql': {
      'a failed transaction can become successful': [
        "(old.status = 'PENDING' and new.status in ('SUCCESS', 'FAILED'))",
        "(old.status in ('PENDING', 'FAILED') and new.status in ('SUCCESS', 'FAILED'))",
      ],
    },
    'src/postgres/migrations/20261122_initial/ledger.sql': {
      'a transition without its postings is accepted': [
        "payment <> case when n.status in ('SUCCESS', 'REVERSED') then n.amount_minor else 0 end",
        'false',
      ],
      'a fee without its settlement is accepted': [
        'settlement is distinct from t.amount_minor',
        'settlement <> t.amount_minor',
      ],
      'a settlement does not wait for a reversal': [
        'perform lock_settled(b.business_id, b.live, false) from (',
        'perform b.business_id from (',
      ],
      'a reversal does not wait for a settlement': [
        'perform lock_settled(r.business_id, r.live, true) from (',
        'perform r.business_id from (',
      ],
      'a reversal without the mirror of the payment is accepted': [
        "or payment_reversal <> case when n.status = 'REVERSED' then payment else 0 end",
        '',
      ],
      'a reversal leaves the shares': [
        "      or shares_reversal is distinct from case when n.status = 'REVERSED' then shares end)",
        ')',
      ],
    },
    'src/postgres/migrations/20261122_initial/transactions.sql': {
      'a transaction without its session is accepted': [
        'where parent.transaction_id is distinct from t.id limit 1',
        'where false limit 1',
      ],
      'a posting without a transaction is accepted': [
        `where parent.found is null limit 1;
    if found then
      raise exception 'the transaction`,
        `where false limit 1;
    if found then
      raise exception 'the transaction`,
      ],
      'a transaction without an account is accepted': [
        `where parent.found is null limit 1;
    if found then
      raise exception 'the account`,
        `where false limit 1;
    if found then
      raise exception 'the account`,
      ],
    },
    'src/transactions/variance/record-one-time.ts': {
      'a held payment is pending': [
        `case when hold is null then 'pending' else 'held' end, amount_minor, created_at
        from arrived`,
        `'pending', amount_minor, created_at
        from arrived`,
      ],
      'the event of a held payment changes the pending balance': [
        `payload, id, case when hold is null then amount_minor else 0 end
        from arrived`,
        `payload, id, amount_minor
        from arrived`,
      ],
    },
    'src/transactions/find-reported.ts': {
      'a test transaction is taken for the payment of a statement': [
        's.bank = $1 and s.live',
        's.bank = $1',
      ],
      'a session at another bank is taken for the payment of a statement': [
        's.session_id = r.session_id and s.bank = $1 and',
        's.session_id = r.session_id and $1 is not null and',
      ],
    },
    'src/transactions/list-transactions.ts': {
      "the payments of a session show another business's": [
        '(t.business_id = any ($3::text[]) or $3 is null)',
        '(t.business_id >= left(($3::text[])[1], 1) or $3 is null)',
      ],
    },
  },
)
