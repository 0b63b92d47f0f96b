import { mutationsOf } from './mutation.ts'

/** Money that is settled twice or too early, and balances that are wrong. */
export const SETTLEMENT = mutationsOf(
  'settlement',
  ['test/model/money.test.ts', 'test/model/races.test.ts'],
  {
    'src/postgres/migrations/20261122_initial/sequence_events.sql': {
      'the events of a business continue from an earlier counter': [
        'order by b.last_sequence desc limit 1) c on true',
        'order by b.last_sequence limit 1) c on true',
      ],
    },
    'src/postgres/migrations/20261122_initial/settlement.sql': {
      'a fee exceeds its payment': [
        `    amount_minor,
    case when cap_minor = 0 then amount_minor else cap_minor end,`,
        '    case when cap_minor = 0 then null else cap_minor end,',
      ],
      'a completed settlement can be changed': [
        "if old.status = 'COMPLETED' then",
        'if false then',
      ],
    },
    'src/settlement/runs/batch-store.ts': {
      'a settlement leaves out its first event': [
        'l.live = $10 and l.business_sequence > $3',
        'l.live = $10 and l.business_sequence > $3 + 1',
      ],
      'a settlement goes beyond its range': [
        'and l.business_sequence <= $4',
        'and $4::bigint is not null',
      ],
      'a settlement takes the payments of the other mode': [
        'l.live = $10 and l.business_sequence > $3',
        '$10::boolean is not null and l.business_sequence > $3',
      ],
      'a settled payment is not moved to the available balance': [
        "select 'settlement' as kind, 'pending' as debit, 'available' as credit",
        "select 'settlement' as kind, 'pending' as debit, 'pending' as credit",
      ],
      'a fee is not posted': [
        "'available', 'fees', s.fee_minor where s.fee_minor > 0",
        "'available', 'fees', s.fee_minor where false",
      ],
      'a settlement ends after its first batch': [
        'case when count(*) < $5 then $4::bigint else max(business_sequence) end',
        '$4::bigint',
      ],
      'a reversed payment is settled': [
        "t.status = 'SUCCESS' and not",
        "t.status <> 'PENDING' and not",
      ],
      'the shares are not taken from the owner': [
        "union all select id, 'split', $2::text, 'available', 'splits', sum(share_minor) from share group by id",
        '',
      ],
      'the shares are postings of the owner': [
        "select id, 'share_' || number, business_id,",
        "select id, 'share_' || number, $2::text,",
      ],
    },
    'src/settlement/runs/store.ts': {
      'a settlement takes payments recorded after its cut-off': [
        'and o.occurred_at < $12',
        'and $12::timestamptz is not null',
      ],
      'a settlement begins again at the first event': [
        'select coalesce((select to_sequence from last), -(2::numeric ^ 62)::bigint) as at',
        'select -(2::numeric ^ 62)::bigint as at',
      ],
      'a settlement of the other mode is continued': [
        'where business_id = $1 and live = $2 and status',
        'where business_id = $1 and $2::boolean is not null and status',
      ],
    },
    'src/settlement/due-index.ts': {
      'payments of another mode start a settlement': [
        'where l.business_id = k.business_id and l.live = k.live',
        'where l.business_id = k.business_id',
      ],
      'a reversed payment starts a settlement': [
        `t.status = 'SUCCESS' and not exists (select from ledger_posting p
                where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
              and ((o.`,
        `not exists (select from ledger_posting p
                where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
              and ((o.`,
      ],
      'a settlement of one mode hides the payments of the other': [
        'where business_id = k.business_id and live = k.live order by to_sequence desc',
        'where business_id = k.business_id order by to_sequence desc',
      ],
    },
    'src/settlement/get-balance.ts': {
      'a balance omits what a running settlement has moved': [
        "and live = $2 and status = 'RUNNING'",
        "and live = $2 and status = 'NONE'",
      ],
      'a balance counts completed settlements twice': [
        "and live = $2 and status = 'RUNNING'",
        'and live = $2',
      ],
      'a balance omits events that have no number yet': [
        'and o.xid >= (select pg_snapshot_xmax(snapshot) from state)',
        'and o.xid < (select pg_snapshot_xmax(snapshot) from state)',
      ],
      'a balance counts an event twice while it is numbered': [
        `and o.business_id = $1 and o.live = $2
            and not (o.seq <= state.base_seq or state.target is not null and o.seq <= state.done_seq
              and pg_visible_in_snapshot(o.xid, state.target))
        union all`,
        `and o.business_id = $1 and o.live = $2
        union all`,
      ],
    },
    'src/transactions/store.ts': {
      'a payment that became final after the cut-off is settled with it': [
        'set status = new_status, created_at = recorded_at',
        'set status = new_status',
      ],
    },
    'src/settlement/verify-balance.ts': {
      'a share of another business is not found': [
        'when gross is not null and shares is distinct from due_shares',
        'when false',
      ],
    },
    'src/postgres/migrations/20261122_initial/splits.sql': {
      'a share is more than what is left': [
        '(least(w.up_to, w.rest) - w.up_to + w.wanted)::bigint',
        'w.wanted::bigint',
      ],
    },
    'src/transactions/reverse-transaction.ts': {
      'the owner gives back the shares of others': [
        'side where business_id = (select business_id from reversed) group by account',
        'side group by account',
      ],
      'a reversal of a payment of which others got all is missing in the statement': [
        'select bool_and(amount_minor = 0) from changes',
        'select false from changes',
      ],
    },
    'src/transactions/share-store.ts': {
      'recipients give back more than they got': [
        ' and settlement_id is not null order by kind',
        ' order by kind',
      ],
    },
    'src/settlement/list-entries.ts': {
      'a recipient sees the session of a payment of another business': [
        ' and t.business_id = $1)',
        ')',
      ],
    },
    'src/accounts/splits/approvals.ts': {
      'an approval is of every business': [
        'where business_id = $1 and recipient_id',
        'where business_id <> $1 and recipient_id',
      ],
    },
  },
)
