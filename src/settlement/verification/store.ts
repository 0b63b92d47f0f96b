import type { PoolClient } from 'pg'
import type { Book } from '../settlement.ts'
import type { Difference } from './verify-ledger.ts'

/** What postings come to, in kobo. */
export interface BookSums extends Book {
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

/** Some transactions with their postings, looked at. */
interface VerifiedPage {
  readonly transactions: number
  readonly postings: number
  readonly wrong: readonly Difference[]
  readonly wrongCount: number
  readonly books: readonly BookSums[]
  readonly settlements: readonly SettlementSums[]
  /** Where to go on after; undefined when there are no more. */
  readonly last: string | undefined
}

/** How many wrong transactions of one page are named. */
const WRONG_MAX = 100

const side = (account: string, kinds: string) =>
  `coalesce(sum(case when credit_account = '${account}' then p.amount_minor else -p.amount_minor end)
    filter (where '${account}' in (debit_account, credit_account)), 0) as ${kinds}`

const of = (kind: string) =>
  `coalesce(sum(p.amount_minor) filter (where p.kind = '${kind}'), 0) as ${kind}`

interface Row {
  transactions: number
  postings: number
  last: string | null
  wrong: readonly Difference[] | null
  wrong_count: number
  books: readonly string[][] | null
  settlements: readonly string[][] | null
}

/**
 * Looks at the next transactions in the order of their ids: what the ledger must say of each
 * follows from its status and whether it is settled (see src/transactions/ledger.ts).
 */
export async function verifyPage(
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
        select t.id, count(p.kind) as postings, ${of('payment')}, ${of('settlement')}, ${of('fee')},
          ${of('payment_reversal')}, ${of('settlement_reversal')}, ${of('fee_reversal')},
          coalesce(bool_and(p.business_id = t.business_id and p.live = t.live), true) as own
        from page t left join posting p on p.transaction_id = t.id group by t.id
      ), judged as (
        select t.id, case
          when not own then 'a posting is of another business or mode'
          when payment <> case when t.status in ('SUCCESS', 'REVERSED') then t.amount_minor else 0 end
            then 'is ' || t.status || ' over ' || t.amount_minor || '; posted as paid: ' || payment
          when settlement <> case when t.settled then t.amount_minor else 0 end
            then case when t.settled then 'is settled over ' || t.amount_minor else 'is not settled' end
              || '; posted as settled: ' || settlement
          when fee > settlement then 'the fee of ' || fee || ' is more than was settled'
          when case when t.status = 'REVERSED'
              then (payment_reversal, settlement_reversal, fee_reversal) <> (payment, settlement, fee)
              else payment_reversal + settlement_reversal + fee_reversal > 0 end
            then 'is ' || t.status || '; posted as taken back: ' || payment_reversal || ', '
              || settlement_reversal || ' and a fee of ' || fee_reversal
          end as problem
        from page t join posted using (id)
      )
      select (select count(*)::int from page) as transactions,
        (select count(*)::int from posting) as postings,
        (select max(id) from page) as last,
        (select count(*)::int from judged where problem is not null) as wrong_count,
        (select json_agg(json_build_object('subject', id, 'problem', problem)) from (
          select id, problem from judged where problem is not null order by id limit ${WRONG_MAX}
        ) w) as wrong,
        (select json_agg(json_build_array(business_id, live::text, pending::text, available::text, fees::text))
          from (select business_id, live, ${side('pending', 'pending')}, ${side('available', 'available')},
            ${side('fees', 'fees')} from posting p group by business_id, live) b) as books,
        (select json_agg(json_build_array(settlement_id, count::text, settlement::text, fee::text))
          from (select settlement_id, count(*) filter (where p.kind = 'settlement') as count,
            ${of('settlement')}, ${of('fee')}
            from posting p where settlement_id is not null group by settlement_id) s) as settlements`,
    [after, limit],
  )
  const row = rows[0] as Row
  return {
    transactions: row.transactions,
    postings: row.postings,
    wrong: row.wrong ?? [],
    wrongCount: row.wrong_count,
    books: (row.books ?? []).map(([businessId = '', live, ...sums]) => {
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

type TotalsRow = { id: string; count: string; gross: string; fees: string }

const TOTALS = 's.id, s.transaction_count as count, s.gross_minor as gross, s.fees_minor as fees'

/** What some settlements say of themselves. */
export async function findSettlementTotals(
  client: PoolClient,
  ids: readonly string[],
): Promise<SettlementSums[]> {
  const { rows } = await client.query<TotalsRow>(
    `select ${TOTALS} from settlement s where s.id = any ($1)`,
    [ids],
  )
  return rows.map(toSums)
}

/** What settlements say of themselves, in order of their ids, and whether any has a posting at all. */
export async function listSettlementTotals(
  client: PoolClient,
  after: string,
  limit: number,
): Promise<(SettlementSums & { readonly posted: boolean })[]> {
  const { rows } = await client.query<TotalsRow & { posted: boolean }>(
    `select ${TOTALS}, exists (
        select from money_event e join ledger_posting p on p.transaction_id = e.subject_id
        where e.business_id = s.business_id and e.live = s.live
          and e.business_sequence > s.from_sequence and e.business_sequence <= s.to_sequence
          and p.kind = 'settlement' and p.settlement_id = s.id) as posted
      from settlement s where s.id > $1 order by s.id limit $2`,
    [after, limit],
  )
  return rows.map((row) => ({ ...toSums(row), posted: row.posted }))
}

function toSums({ id, count, gross, fees }: TotalsRow): SettlementSums {
  return { id, count: BigInt(count), gross: BigInt(gross), fees: BigInt(fees) }
}

/** Businesses and modes that have events, and whether their sums are those of their numbered events. */
export async function listSummaries(
  client: PoolClient,
  after: Book,
  limit: number,
): Promise<(Book & { readonly agrees: boolean })[]> {
  const { rows } = await client.query<{ business_id: string; live: boolean; agree: boolean }>(
    `select c.business_id, c.live, (c.pending_minor, c.available_minor, c.fees_minor) = (
        select coalesce(sum(e.pending_minor), 0), coalesce(sum(e.available_minor), 0),
          coalesce(sum(e.fees_minor), 0)
        from money_event e where e.business_id = c.business_id and e.live = c.live) as agree
      from event_business_counter c where (c.business_id, c.live) > ($1, $3::boolean)
      order by c.business_id, c.live limit $2`,
    [after.businessId, limit, after.live],
  )
  return rows.map((row) => ({ businessId: row.business_id, live: row.live, agrees: row.agree }))
}
