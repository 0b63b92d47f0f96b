import type { ConnectorName } from '../banks/bank.ts'
import { textArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { listConflictsOf } from './conflicts.ts'
import { TRANSACTION_COLUMNS, type TransactionRow, toStored } from './queries.ts'
import type { ListedConflict, StoredTransaction } from './transaction.ts'

/** Everything that is stored about one payment, except its events. */
export interface PaymentHistory {
  /** Includes its reversal. */
  readonly transaction: StoredTransaction
  readonly accountId: string
  /** The connector that opened the account. */
  readonly connector: ConnectorName
  /** Oldest first. */
  readonly postings: readonly StoredPosting[]
  /** The reports that contradict it, oldest first; one more than requested if there are more. */
  readonly conflicts: readonly ListedConflict[]
}

/** One movement of money. */
interface StoredPosting {
  readonly kind: string
  /** The business of the payment; the recipient of a share. */
  readonly businessId: string
  readonly debitAccount: string
  readonly creditAccount: string
  readonly amountMinor: bigint
  readonly postedAtMs: number
  readonly settlementId: string | undefined
}

/** @returns undefined if there is no such transaction */
export async function readPaymentHistory(
  on: Queryable,
  id: string,
  conflictsMax: number,
): Promise<PaymentHistory | undefined> {
  const { rows } = await on.query<HistoryRow>({
    name: 'transaction-history',
    text: `select ${TRANSACTION_COLUMNS}, t.account_id, a.connector, r.reason as reversal_reason,
        round(date_part('epoch', r.reversed_at) * 1000) as reversed_at_ms
      from transaction t join account a on a.id = t.account_id
      left join reversal r on r.transaction_id = t.id where t.id = $1`,
    values: [id],
  })
  const [row] = rows
  if (row === undefined) return undefined
  const { reversal_reason: reason, reversed_at_ms: reversedAtMs } = row
  const isReversed = reason !== null && reversedAtMs !== null
  return {
    transaction: { ...toStored(row), ...(isReversed && { reversal: { reason, reversedAtMs } }) },
    accountId: row.account_id,
    connector: row.connector,
    postings: await readPostings(on, id),
    conflicts: await listConflictsOf(on, id, conflictsMax + 1),
  }
}

interface HistoryRow extends TransactionRow {
  account_id: string
  connector: ConnectorName
  reversal_reason: string | null
  reversed_at_ms: number | null
}

/** The list is bounded, because the primary key allows one posting of each kind. */
async function readPostings(on: Queryable, id: string): Promise<readonly StoredPosting[]> {
  type Row = Omit<StoredPosting, 'amountMinor' | 'settlementId'> & {
    readonly amount: string
    readonly settlement: string | null
  }
  const { rows } = await on.query<Row>({
    name: 'transaction-postings',
    text: `select kind, business_id as "businessId", debit_account as "debitAccount",
        credit_account as "creditAccount", amount_minor as amount,
        round(date_part('epoch', created_at) * 1000) as "postedAtMs", settlement_id as settlement
      from ledger_posting where transaction_id = $1 order by created_at, kind`,
    values: [id],
  })
  return rows.map(({ amount, settlement, ...posting }) => ({
    ...posting,
    amountMinor: BigInt(amount),
    settlementId: settlement ?? undefined,
  }))
}

/** How a payment was settled. */
export interface Settled {
  readonly settledAtMs: number
  /** The fee, less the part that a reversal returned. */
  readonly feeMinor: bigint
  /** The shares of other businesses, less the part that they gave back with a reversal. */
  readonly splitsMinor: bigint
}

interface Row {
  id: string
  settled_at_ms: number
  fee_minor: string
  splits_minor: string
}

/** @returns how the settled payments among them were settled, by id */
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
