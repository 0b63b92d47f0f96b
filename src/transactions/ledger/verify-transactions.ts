import type { PoolClient } from 'pg'

/** One inconsistency in the ledger. */
export interface Discrepancy {
  /** A transaction id, a settlement id or a balance. */
  readonly subject: string
  readonly problem: string
}

/** The sums of postings by ledger account, in kobo. */
export interface BalanceSums {
  readonly businessId: string
  readonly live: boolean
  readonly pending: bigint
  readonly available: bigint
  readonly fees: bigint
}

export interface SettlementSums {
  readonly id: string
  readonly count: bigint
  readonly gross: bigint
  readonly fees: bigint
}

/** The result of verifying one page of transactions with their postings. */
interface VerifiedPage {
  readonly transactions: number
  readonly postings: number
  readonly discrepancies: readonly Discrepancy[]
  readonly discrepancyCount: number
  readonly balances: readonly BalanceSums[]
  readonly settlements: readonly SettlementSums[]
  /** The last transaction id, where the next page starts; undefined on the last page. */
  readonly last: string | undefined
}

/** How many discrepancies of one page are returned. */
const DISCREPANCIES_MAX = 100

const sumOfAccount = (account: string) =>
  `coalesce(sum(case when credit_account = '${account}' then p.amount_minor else -p.amount_minor end)
    filter (where '${account}' in (debit_account, credit_account)), 0) as ${account}`

const sumOfKind = (kind: string) =>
  `coalesce(sum(p.amount_minor) filter (where p.kind = '${kind}'), 0) as ${kind}`

interface Row {
  transactions: number
  postings: number
  last: string | null
  discrepancies: readonly Discrepancy[] | null
  discrepancy_count: number
  balances: readonly string[][] | null
  settlements: readonly string[][] | null
}

/**
 * Verifies the next transactions in id order. The status of a transaction and whether it is settled
 * determine the postings it must have (see ledger.ts).
 */
export async function verifyTransactions(
  client: PoolClient,
  after: string,
  limit: number,
): Promise<VerifiedPage> {
  const { rows } = await client.query<Row>(
    `with page as materialized (
        select id, business_id, live, amount_minor, status, settled_at is not null as settled
        from transaction where id > $1 order by id limit $2
      ), posting as materialized (
        select * from ledger_posting
        where transaction_id > $1 and transaction_id <= (select max(id) from page)
      ), posted as (
        select t.id, count(p.kind) as postings, ${sumOfKind('payment')}, ${sumOfKind('settlement')}, ${sumOfKind('fee')},
          ${sumOfKind('payment_reversal')}, ${sumOfKind('settlement_reversal')}, ${sumOfKind('fee_reversal')},
          coalesce(bool_and(p.business_id = t.business_id and p.live = t.live), true) as is_own
        from page t left join posting p on p.transaction_id = t.id group by t.id
      ), verified as (
        select t.id, case
          when not is_own then 'a posting belongs to another business or mode'
          when payment <> case when t.status in ('SUCCESS', 'REVERSED') then t.amount_minor else 0 end
            then 'is ' || t.status || ' with amount ' || t.amount_minor
              || '; its payment postings add up to ' || payment
          when settlement <> case when t.settled then t.amount_minor else 0 end
            then case when t.settled then 'is settled with amount ' || t.amount_minor else 'is not settled' end
              || '; its settlement postings add up to ' || settlement
          when fee > settlement then 'the fee of ' || fee || ' exceeds the settled amount'
          when case when t.status = 'REVERSED'
              then (payment_reversal, settlement_reversal, fee_reversal) <> (payment, settlement, fee)
              else payment_reversal + settlement_reversal + fee_reversal > 0 end
            then 'is ' || t.status || '; its reversal postings add up to ' || payment_reversal
              || ' (payment), ' || settlement_reversal || ' (settlement) and '
              || fee_reversal || ' (fee)'
          end as problem
        from page t join posted using (id)
      )
      select (select count(*)::int from page) as transactions,
        (select count(*)::int from posting) as postings,
        (select max(id) from page) as last,
        (select count(*)::int from verified where problem is not null) as discrepancy_count,
        (select json_agg(json_build_object('subject', id, 'problem', problem)) from (
          select id, problem from verified where problem is not null order by id limit ${DISCREPANCIES_MAX}
        ) d) as discrepancies,
        (select json_agg(json_build_array(business_id, live::text, pending::text, available::text, fees::text))
          from (select business_id, live, ${sumOfAccount('pending')}, ${sumOfAccount('available')},
            ${sumOfAccount('fees')} from posting p group by business_id, live) b) as balances,
        (select json_agg(json_build_array(settlement_id, count::text, settlement::text, fee::text))
          from (select settlement_id, count(*) filter (where p.kind = 'settlement') as count,
            ${sumOfKind('settlement')}, ${sumOfKind('fee')}
            from posting p where settlement_id is not null group by settlement_id) s) as settlements`,
    [after, limit],
  )
  const row = rows[0] as Row
  return {
    transactions: row.transactions,
    postings: row.postings,
    discrepancies: row.discrepancies ?? [],
    discrepancyCount: row.discrepancy_count,
    balances: (row.balances ?? []).map(([businessId = '', live, ...sums]) => {
      const [pending = 0n, available = 0n, fees = 0n] = sums.map(BigInt)
      return { businessId, live: live === 'true', pending, available, fees }
    }),
    settlements: (row.settlements ?? []).map(([id = '', ...sums]) => {
      const [count = 0n, gross = 0n, fees = 0n] = sums.map(BigInt)
      return { id, count, gross, fees }
    }),
    last: row.transactions < limit ? undefined : (row.last ?? undefined),
  }
}
