import { textArray } from '../../postgres/binary-arrays.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'

/** What settlement did with a payment. */
export interface Settled {
  readonly settledAtMs: number
  /** The fee, less what was returned with a reversal. */
  readonly feeMinor: bigint
  /** The shares of other businesses, less what they gave back with a reversal. */
  readonly splitsMinor: bigint
}

interface Row {
  id: string
  settled_at_ms: number
  fee_minor: string
  splits_minor: string
}

/** @returns what settlement did with the settled ones of the payments, by id */
export async function listSettled(
  on: Queryable,
  transactionIds: readonly string[],
): Promise<ReadonlyMap<string, Settled>> {
  if (transactionIds.length === 0) return new Map()
  const { rows } = await on.query<Row>({
    name: 'posting-list-settled',
    text: `select k.id, round(date_part('epoch', p.settled_at) * 1000) as settled_at_ms, p.fee_minor, p.splits_minor
      from unnest((select $1::text[])) k(id) cross join lateral (
        select max(created_at) filter (where kind = 'settlement') as settled_at,
          coalesce(sum(amount_minor) filter (where kind = 'fee'), 0)
            - coalesce(sum(amount_minor) filter (where kind = 'fee_reversal'), 0) as fee_minor,
          coalesce(sum(amount_minor) filter (where kind = 'split'), 0)
            - coalesce(sum(amount_minor) filter (where kind = 'split_reversal'), 0) as splits_minor
        from ledger_posting where transaction_id = k.id offset 0
      ) p where p.settled_at is not null`,
    values: [textArray(transactionIds)],
  })
  return new Map(
    rows.map((row) => [
      row.id,
      {
        settledAtMs: row.settled_at_ms,
        feeMinor: BigInt(row.fee_minor),
        splitsMinor: BigInt(row.splits_minor),
      },
    ]),
  )
}
