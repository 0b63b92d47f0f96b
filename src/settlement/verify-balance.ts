import type { PoolClient } from 'pg'
import { MINUTE_MS } from '../core/durations.ts'
import { assert } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import {
  findSequenceBounds,
  hasConsistentSums,
  lastSequenceBefore,
} from '../events/business-sequences.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { findWrongEventCounts, verifyEvents, verifyShares } from '../transactions/verify-events.ts'
import {
  type Discrepancy,
  type Scope,
  type TransactionKey,
  verifyTransactions,
} from '../transactions/verify-transactions.ts'
import { readCurrentBalance } from './get-balance.ts'
import { SETTLEMENT_COLUMNS, type SettlementRow, toSettlement } from './runs/store.ts'
import { type BalanceKey, BEFORE_ALL, type Settlement } from './settlement.ts'

/** The result of a part of a verification. */
export interface Part {
  readonly transactions: number
  readonly postings: number
  readonly discrepancies: readonly Discrepancy[]
  /** More than `discrepancies.length` if not all discrepancies are returned. */
  readonly discrepancyCount: number
}

/**
 * Verifies the payouts of a balance. The payouts domain, which depends on this one, implements it. With an empty business
 * id, as the events of unmatched payments have, it verifies the payouts that return unmatched payments.
 *
 * @returns the discrepancies, and the sums that the postings of the payouts add to the balance
 */
export type VerifyPayouts = (
  client: PoolClient,
  key: BalanceKey,
) => Promise<{
  readonly discrepancies: readonly Discrepancy[]
  readonly count: number
  readonly pendingMinor: bigint
  readonly availableMinor: bigint
  readonly feesMinor: bigint
}>

const TRANSACTIONS_MAX = 5_000

/** How many payloads are decoded without yielding to the event loop, which takes a few milliseconds. */
const EVENTS_MAX = 500
const SETTLEMENTS_MAX = 100

/**
 * How far a verification starts before the point where it continues, because clocks differ. Events start earlier than
 * transactions, so that all events of the verified transactions are found.
 */
const OVERLAP_MS = { transactions: 30 * MINUTE_MS, events: 60 * MINUTE_MS }

/**
 * Verifies a balance in the snapshot of the client's transaction. It compares each transaction with its postings and
 * events, each event with its transaction, each settlement with the payments in its range, the shares of payments of other
 * businesses with their events, and the sums.
 *
 * @param sinceMs verifies only rows that were written since then, and all payouts and shares; 0: everything
 */
export async function* verifyBalance(
  client: PoolClient,
  verifyPayouts: VerifyPayouts,
  key: BalanceKey,
  sinceMs: number,
): AsyncGenerator<Part> {
  const subject = key.live ? key.businessId : `${key.businessId} in test mode`
  const after = await findStart(client, key, sinceMs)
  const scope = { ...key, fromId: firstIdOf(sinceMs) }
  const balance = await readCurrentBalance(client, key)
  const posted = yield* verifyPostings(client, scope)
  const shares = await verifyShares(client, key)
  yield found(shares.discrepancies, shares.count)
  const payouts = await verifyPayouts(client, key)
  yield found(payouts.discrepancies, payouts.count)
  if (sinceMs === 0) {
    const compare = (name: string, recorded: bigint, sum: bigint): Discrepancy[] =>
      recorded === sum
        ? []
        : [{ subject, problem: `${name} is ${recorded}; its postings add up to ${sum}` }]
    yield found([
      ...compare(
        'the pending balance',
        balance.pendingMinor,
        posted.pending + payouts.pendingMinor,
      ),
      ...compare(
        'the available balance',
        balance.availableMinor,
        posted.available + shares.available + payouts.availableMinor,
      ),
      ...compare('the fee total', balance.feesMinor, posted.fees + payouts.feesMinor),
    ])
  }
  if (balance.pendingMinor < 0n) {
    yield found([{ subject, problem: `the pending balance is negative: ${balance.pendingMinor}` }])
  }
  if (!(await hasConsistentSums(client, key, after))) {
    const problem = 'its running sums differ from the sums of its sequenced events'
    yield found([{ subject, problem }])
  }
  const readEvents = (last: bigint) => verifyEvents(client, scope, last, EVENTS_MAX)
  for await (const page of pagesOf(after, readEvents)) yield found(page.discrepancies)
  const wrong = await findWrongEventCounts(client, scope, after)
  yield found(wrong.discrepancies, wrong.count)
  yield* verifySettlements(client, key, sinceMs)
}

/** The sequence number after which events are verified. */
async function findStart(client: PoolClient, key: BalanceKey, sinceMs: number): Promise<bigint> {
  if (sinceMs === 0) return BEFORE_ALL
  const bounds = await findSequenceBounds(client, key)
  if (bounds === undefined) return BEFORE_ALL
  return lastSequenceBefore(client, key, sinceMs - OVERLAP_MS.events, bounds)
}

/** The prefix of the first transaction id to verify; empty: all ids. */
function firstIdOf(sinceMs: number): string {
  if (sinceMs === 0) return ''
  return newId('txn', Math.max(0, sinceMs - OVERLAP_MS.transactions)).slice(0, 'txn_'.length + 10)
}

/** @returns the sums of the postings */
async function* verifyPostings(
  client: PoolClient,
  scope: Scope,
): AsyncGenerator<Part, { pending: bigint; available: bigint; fees: bigint }> {
  const sums = { pending: 0n, available: 0n, fees: 0n }
  const first: TransactionKey = { paidAtMs: -Infinity, id: '' }
  const read = (after: TransactionKey) => verifyTransactions(client, scope, after, TRANSACTIONS_MAX)
  for await (const page of pagesOf(first, read)) {
    sums.pending += page.pending
    sums.available += page.available
    sums.fees += page.fees
    const unknown = await findUnknownSettlements(client, scope, page.settlementIds)
    const problem = 'has postings, but the settlement does not exist'
    yield {
      transactions: page.transactions,
      postings: page.postings,
      discrepancies: [...page.discrepancies, ...unknown.map((subject) => ({ subject, problem }))],
      discrepancyCount: page.discrepancyCount + unknown.length,
    }
  }
  return sums
}

async function* verifySettlements(
  client: PoolClient,
  key: BalanceKey,
  sinceMs: number,
): AsyncGenerator<Part> {
  const since = Math.max(0, sinceMs - OVERLAP_MS.events)
  const read = async (after: string) => {
    const settlements = await listSettlements(client, key, { sinceMs: since, after })
    const isLast = settlements.length < SETTLEMENTS_MAX
    return { settlements, last: isLast ? undefined : settlements.at(-1)?.id }
  }
  for await (const { settlements } of pagesOf('', read)) {
    for (const settlement of settlements) {
      const { discrepancies, count } = await verifySettlement(client, settlement)
      yield found(discrepancies, count)
    }
  }
}

export function found(discrepancies: readonly Discrepancy[], count = discrepancies.length): Part {
  return { transactions: 0, postings: 0, discrepancies, discrepancyCount: count }
}

/** The pages of a list. @param read returns the page after a position; a page without `last` is the last page */
export async function* pagesOf<Place, Page extends { readonly last: Place | undefined }>(
  first: NoInfer<Place>,
  read: (after: Place) => Promise<Page>,
): AsyncGenerator<Page> {
  for (let after: Place | undefined = first; after !== undefined; ) {
    const page: Page = await read(after)
    yield page
    after = page.last
  }
}

/** The time by the database's clock. */
export async function readDatabaseTime(client: Queryable): Promise<number> {
  const { rows } = await client.query<{ at_ms: number }>(
    `select round(date_part('epoch', clock_timestamp()) * 1000) as at_ms`,
  )
  return rows[0]?.at_ms ?? 0
}

/** The next balance that has events or transactions. */
export async function findNextBalance(
  client: Queryable,
  after: BalanceKey,
): Promise<BalanceKey | undefined> {
  const { rows } = await client.query<{ business_id: string; live: boolean }>(
    `select business_id, live from (
        (select business_id, live from event_business_counter
          where (business_id, live) > ($1, $2::boolean) order by business_id, live limit 1)
        union all
        (select business_id, live from transaction
          where (business_id, live) > ($1, $2::boolean) order by business_id, live limit 1)
      ) b
      order by business_id, live limit 1`,
    [after.businessId, after.live],
  )
  return rows[0] && { businessId: rows[0].business_id, live: rows[0].live }
}

/** Returns the ids that are not settlements of the balance. */
async function findUnknownSettlements(
  client: PoolClient,
  { businessId, live }: BalanceKey,
  ids: readonly string[],
): Promise<string[]> {
  const { rows } = await client.query<{ id: string }>(
    `select u.id from unnest($3::text[]) u (id) where not exists (
        select from settlement s where s.id = u.id and s.business_id = $1 and s.live = $2)`,
    [businessId, live, ids],
  )
  return rows.map(({ id }) => id)
}

/** The settlements of a balance that are running or were completed since a time, in id order. */
async function listSettlements(
  client: PoolClient,
  { businessId, live }: BalanceKey,
  { sinceMs, after }: { readonly sinceMs: number; readonly after: string },
): Promise<Settlement[]> {
  const { rows } = await client.query<SettlementRow>(
    `select ${SETTLEMENT_COLUMNS} from settlement where business_id = $1 and live = $2 and id > $3
        and (completed_at is null or completed_at >= $4)
      order by id limit $5`,
    [businessId, live, after, new Date(sinceMs), SETTLEMENTS_MAX],
  )
  return rows.map(toSettlement)
}

/** The most discrepancies of one settlement that are returned. */
const DISCREPANCIES_MAX = 100

interface VerifiedRow {
  posted_count: string
  posted_gross: string
  posted_fees: string
  posted_splits: string
  wrong: number
  discrepancies: readonly Discrepancy[] | null
}

/**
 * Compares a settlement with the payments in the range of events that it has processed. Each payment must be settled with
 * the fee of the terms and the shares of its account, unless it was reversed, and the postings must add up to the totals of
 * the settlement. A payment that became successful later has its event after that range.
 */
async function verifySettlement(
  client: PoolClient,
  settlement: Settlement,
): Promise<{ readonly discrepancies: readonly Discrepancy[]; readonly count: number }> {
  const { id, businessId, live, fromSequence, scannedSequence } = settlement
  const { rows } = await client.query<VerifiedRow>(
    `with payment as (
        select t.id, t.status = 'SUCCESS' and not exists (select from ledger_posting s
            where s.transaction_id = t.id and s.kind = 'settlement' offset 0) as is_skipped,
          sum(p.amount_minor) filter (where p.kind = 'settlement') as gross,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'fee'), 0) as fee,
          coalesce(sum(p.amount_minor) filter (where p.kind = 'split'), 0) as split,
          jsonb_object_agg(p.kind, jsonb_build_array(p.business_id, p.amount_minor))
            filter (where starts_with(p.kind, 'share_')) as shares,
          settlement_fee(t.amount_minor - coalesce(r.minor, 0), $6::bigint, $7::int, $8::bigint) as due,
          t.account_id, t.created_at, t.amount_minor - coalesce(r.minor, 0) as amount_minor
        from money_event e join transaction t on t.id = e.subject_id
          left join lateral refunded_pending(t.id) r (minor) on true
          left join ledger_posting p on p.transaction_id = t.id and p.settlement_id = $1::text
        where e.business_id = $2 and e.live = $3 and e.business_sequence > $4
          and e.business_sequence <= $5 and e.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
        group by t.id, r.minor
      ), verified as (
        select *, case
            when is_skipped then 'is SUCCESS and not settled; ' || $1::text || ' skipped it'
            when gross is not null and fee <> due
              then 'its fee is ' || fee || '; the terms of ' || $1::text || ' give ' || due
            when gross is not null and shares is distinct from due_shares
              then 'its shares are ' || coalesce(shares::text, 'none') || '; its account gives '
                || coalesce(due_shares::text, 'none')
          end as problem
        from payment cross join lateral (
          select jsonb_object_agg('share_' || number, jsonb_build_array(business_id, share_minor)) as due_shares
          from split_shares(account_id, created_at, amount_minor, due)
        ) account
      )
      select count(gross) as posted_count, coalesce(sum(gross), 0) as posted_gross,
        coalesce(sum(fee), 0) as posted_fees, coalesce(sum(split), 0) as posted_splits, count(problem)::int as wrong,
        (select json_agg(json_build_object('subject', id, 'problem', problem)) from (
          select id, problem from verified where problem is not null order by id limit ${DISCREPANCIES_MAX}
        ) d) as discrepancies
      from verified`,
    [
      id,
      businessId,
      live,
      fromSequence,
      scannedSequence,
      settlement.feeFlatMinor,
      settlement.feeBasisPoints,
      settlement.feeCapMinor,
    ],
  )
  const row = rows[0]
  assert(row, 'an aggregate query returns a row')
  const { transactionCount, grossMinor, feesMinor, splitsMinor } = settlement
  const recorded = describe(transactionCount, grossMinor, feesMinor, splitsMinor)
  const posted = describe(row.posted_count, row.posted_gross, row.posted_fees, row.posted_splits)
  const totals =
    recorded === posted
      ? []
      : [{ subject: id, problem: `records ${recorded}; its postings add up to ${posted}` }]
  return {
    discrepancies: [...(row.discrepancies ?? []), ...totals],
    count: row.wrong + totals.length,
  }
}

type Total = bigint | string

function describe(count: Total, gross: Total, fees: Total, splits: Total): string {
  const split = `${splits}` === '0' ? '' : `, splits ${splits}`
  return `${count} transactions, gross ${gross}, fees ${fees}${split}`
}
