import type { PoolClient } from 'pg'
import type { Share } from '../transactions/message.ts'
import { appendShareEvents } from '../transactions/share-store.ts'
import { type GivenBack, isFinal, type Payout, type PayoutStatus } from './payout.ts'

/** What is taken of money that comes back, with the settlement whose terms say so. */
interface Taken extends GivenBack {
  readonly settlementId: string
  readonly shares: readonly (Share & { readonly number: number })[]
}

/** Whether the money of a refund from pending comes back: it was not paid, or was sent back. */
export function givesBackPending({ status, source }: Payout, to: PayoutStatus): boolean {
  return source === 'pending' && to !== status && isFinal(to) && to !== 'PAID'
}

/**
 * Locks the balances of refunds from pending whose money comes back, so that until the commit no payment of theirs is settled
 * and no other refund comes back. A settlement that held the lock before has committed, so its postings are visible.
 */
export async function lockGivenBack(
  client: PoolClient,
  refunds: readonly Pick<Payout, 'businessId' | 'live'>[],
): Promise<void> {
  if (refunds.length === 0) return
  // In one order, to avoid deadlocks.
  await client.query(
    `select lock_settled(business_id, live, false) from (
        select distinct business_id, live from unnest($1::text[], $2::boolean[]) r (business_id, live) order by 1, 2
      ) balance`,
    [refunds.map(({ businessId }) => businessId), refunds.map(({ live }) => live)],
  )
}

/**
 * The money of a refund goes back to pending, and settles with its payment. If the payment has settled without it, the money
 * becomes available, less what the settlement would have taken of it: its fee and the shares of other businesses, which are
 * those of the whole amount less those of what has settled or come back so far.
 */
export async function readGivenBack(
  client: PoolClient,
  { transactionId, amountMinor }: Payout,
): Promise<Taken> {
  const { rows } = await client.query<{
    settlement_id: string
    fee_minor: string
    shares: readonly (readonly [number: number, businessId: string, minor: string])[]
  }>(
    `with settled as (
        select t.account_id, t.created_at, s.id, s.fee_flat_minor, s.fee_basis_points, s.fee_cap_minor,
          (t.amount_minor - r.pending_minor + coalesce((
            select sum(back.amount_minor) from payout p join payout_posting back on back.payout_id = p.id
            where p.transaction_id = t.id and p.source = 'pending' and back.kind in ('release', 'return')
              and back.credit_account = 'available'
          ), 0))::bigint as before_minor
        from transaction t
          join ledger_posting posted on posted.transaction_id = t.id and posted.kind = 'settlement'
          join settlement s on s.id = posted.settlement_id
          join payout_refund r on r.transaction_id = t.id
        where t.id = $1
      ), charged as (
        select *, before_minor + $2::bigint as after_minor,
          settlement_fee(before_minor, fee_flat_minor, fee_basis_points, fee_cap_minor) as fee_before,
          settlement_fee(before_minor + $2::bigint, fee_flat_minor, fee_basis_points, fee_cap_minor) as fee_after
        from settled
      )
      select id as settlement_id, fee_after - fee_before as fee_minor, coalesce((
        select json_agg(json_build_array(number, business_id, minor::text) order by number) from (
          -- Rounding may demand a kobo more than there is.
          select number, business_id, least(minor, $2 - (fee_after - fee_before) - (up_to - minor)) as minor
          from (
            select number, business_id, minor, sum(minor) over (order by number) as up_to
            from split_shares(account_id, created_at, after_minor, fee_after)
              left join split_shares(account_id, created_at, before_minor, fee_before)
                as earlier (number, business_id, earlier_minor) using (number, business_id)
              cross join lateral (select greatest(share_minor - coalesce(earlier_minor, 0), 0) as minor) more
          ) wanted
        ) share where minor > 0
      ), '[]') as shares
      from charged`,
    [transactionId, amountMinor],
  )
  const [row] = rows
  const shares = (row?.shares ?? []).map(([number, businessId, minor]) => {
    return { number, businessId, count: 1, amountMinor: BigInt(minor) }
  })
  return {
    releasedTo: row === undefined ? 'pending' : 'available',
    settlementId: row?.settlement_id ?? '',
    feeMinor: BigInt(row?.fee_minor ?? 0),
    splitsMinor: shares.reduce((sum, share) => sum + share.amountMinor, 0n),
    shares,
  }
}

/** Credits the shares to their recipients, in the transaction that changes the payout, with an event for each. */
export async function creditShares(
  client: PoolClient,
  { id, businessId, live }: Payout,
  { settlementId, shares }: Taken,
  nowMs: number,
): Promise<void> {
  if (shares.length === 0) return
  await client.query(
    `insert into payout_posting (payout_id, kind, debit_account, credit_account, amount_minor, created_at, business_id)
      select $1, 'share_' || number, 'splits', 'available', minor, $2, business_id
      from unnest($3::int[], $4::text[], $5::bigint[]) share (number, business_id, minor)`,
    [
      id,
      new Date(nowMs),
      shares.map(({ number }) => number),
      shares.map((share) => share.businessId),
      shares.map(({ amountMinor }) => amountMinor),
    ],
  )
  const change = { kind: 'SHARE_SETTLED', subjectId: settlementId, ownerId: businessId } as const
  await appendShareEvents(client, { ...change, live, atMs: nowMs }, shares)
}
