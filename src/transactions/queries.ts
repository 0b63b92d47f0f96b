import type { PoolClient } from 'pg'
import type { Metadata } from '../accounts/terms.ts'
import type { BankCode, ConnectorName } from '../banks/bank.ts'
import { booleanArray, textArray } from '../postgres/binary-arrays.ts'
import { DEADLINES } from '../postgres/client.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { RowOf } from '../postgres/statement.ts'
import type { TransactionEntity } from './transaction.entity.ts'
import type { ShownTransaction, StoredTransaction, TransactionStatus } from './transaction.ts'
import type { HoldState, PaymentVariance, Variance } from './variance/variance.ts'

/** The columns of a variance, as the driver parses them. */
type VarianceArray = readonly [
  variance: Variance,
  hold: HoldState | null,
  decidedAtMs: number | null,
  returnReason: string,
]

/** A transaction and the facts of its account. */
export interface TransactionRow extends Omit<RowOf<typeof TransactionEntity>, 'account_id'> {
  settled: boolean
  reference: string
  merchant_reference: string
  account_number: string
  account_name: string
  first_name: string
  last_name: string
  email: string
  account_created_at_ms: number
  one_time: boolean
  expected_amount_minor: string | null
  metadata: Metadata | null
  variance: VarianceArray | null
}

/**
 * The columns of a `TransactionRow`, of a transaction `t` and its account `a`. Every list of transactions selects them,
 * and `toStored` reads them. A variance is looked up only for one-time accounts, and "offset 0" keeps the planner from
 * reading all postings. An imported payment is settled if its provider stated that; another payment, if it has the posting.
 */
export const TRANSACTION_COLUMNS = `t.id, t.business_id, t.live, t.bank, t.session_id, t.amount_minor, t.status,
  coalesce(t.imported_settled, exists (select from ledger_posting s
    where s.transaction_id = t.id and s.kind = 'settlement' offset 0)) as settled, t.imported_settled,
  round(date_part('epoch', t.paid_at) * 1000) as paid_at_ms,
  round(date_part('epoch', t.created_at) * 1000) as created_at_ms,
  t.payer_name, t.payer_account_number, t.payer_bank_code, t.payer_bank_name, t.narration, t.recorded_by,
  t.traceparent, a.reference, a.merchant_reference, a.account_number, a.account_name, a.first_name, a.last_name,
  a.email, round(date_part('epoch', a.created_at) * 1000) as account_created_at_ms, a.one_time,
  a.expected_amount_minor, a.metadata,
  case when a.one_time then (
    select json_build_array(v.variance, v.hold, round(date_part('epoch', v.decided_at) * 1000), v.return_reason)
    from payment_variance v where v.transaction_id = t.id offset 0) end as variance`

/** The key by which a caller looks up a transaction. */
export interface SessionKey {
  readonly businessId: string
  /** Undefined: either mode; a live transaction takes precedence. */
  readonly live: boolean | undefined
  readonly sessionId: string
}

/**
 * Transactions by business, mode and session, in the order of the keys. If two banks used the same
 * session id, the later transaction is returned.
 */
export async function findBySessions(
  pool: Queryable,
  keys: readonly SessionKey[],
): Promise<readonly (StoredTransaction | undefined)[]> {
  const result = await pool.query<TransactionRow & { at: number }>({
    name: 'transaction-find-sessions',
    query_timeout: DEADLINES.hot,
    // The keys come from subqueries, for which the planner always expects the same number of rows. Otherwise it would make a
    // new plan, over all partitions, for each call with few keys.
    text: `select k.at::int4 as at, ${TRANSACTION_COLUMNS}
      from unnest((select $1::text[]), (select $2::text[]), (select $3::boolean[]))
        with ordinality as k(business_id, session_id, live, at)
      join lateral (
        -- "offset 0" keeps the planner on the indexes, also while the tables are small: the plan is kept.
        select t.* from (
            select transaction_id from payment_session s
            where s.session_id = k.session_id and s.live = coalesce(k.live, s.live) offset 0) s
          cross join lateral (select * from transaction t where t.id = s.transaction_id offset 0) t
      ) t on t.business_id = k.business_id
      join account a on a.id = t.account_id
      order by t.live, t.id`,
    values: sessionsValues(keys),
  })
  const found: (StoredTransaction | undefined)[] = new Array(keys.length).fill(undefined)
  for (const row of result.rows) found[row.at - 1] = toStored(row)
  return found
}

/**
 * As `findBySessions`, with only the fields that a business sees. Rows are arrays, which is faster:
 * this is the most frequent query of businesses.
 */
export async function findShownBySessions(
  pool: Queryable,
  keys: readonly SessionKey[],
): Promise<readonly (ShownTransaction | undefined)[]> {
  const result = await pool.query<ShownRow>({
    name: 'transaction-find-shown',
    query_timeout: DEADLINES.hot,
    // `findBySessions` has the same keys and joins.
    text: `select k.at::int4 as at, t.session_id, t.bank, t.amount_minor, t.status,
        coalesce(t.imported_settled, exists (select from ledger_posting s
          where s.transaction_id = t.id and s.kind = 'settlement' offset 0)),
        round(date_part('epoch', t.paid_at) * 1000), a.reference, a.account_number, a.account_name,
        a.first_name, a.last_name, a.email, a.one_time, a.expected_amount_minor, a.metadata,
        case when a.one_time then (
          select json_build_array(v.variance, v.hold, round(date_part('epoch', v.decided_at) * 1000),
            v.return_reason)
          from payment_variance v where v.transaction_id = t.id offset 0) end
      from unnest((select $1::text[]), (select $2::text[]), (select $3::boolean[]))
        with ordinality as k(business_id, session_id, live, at)
      join lateral (
        select t.* from (
            select transaction_id from payment_session s
            where s.session_id = k.session_id and s.live = coalesce(k.live, s.live) offset 0) s
          cross join lateral (select * from transaction t where t.id = s.transaction_id offset 0) t
      ) t on t.business_id = k.business_id
      join account a on a.id = t.account_id
      order by t.live, t.id`,
    values: sessionsValues(keys),
    rowMode: 'array',
  })
  const found: (ShownTransaction | undefined)[] = new Array(keys.length).fill(undefined)
  for (const row of result.rows) {
    const shown = toShown(row)
    const other = found[row[0] - 1]
    // The keys of businesses name the mode, so a second row is from another bank.
    found[row[0] - 1] = other === undefined ? shown : { ...shown, alsoAtBank: other.bank }
  }
  return found
}

function sessionsValues(keys: readonly SessionKey[]): Buffer[] {
  return [
    textArray(keys.map((key) => key.businessId)),
    textArray(keys.map((key) => key.sessionId)),
    booleanArray(keys.map((key) => key.live ?? null)),
  ]
}

/** A recorded transaction, the id of its account, and the connector that opened the account. */
export interface RecordedTransaction extends StoredTransaction {
  readonly connector: ConnectorName
  readonly accountId: string
}

/** The key under which a payment is recorded. */
export interface RecordedKey {
  readonly bank: BankCode
  readonly sessionId: string
  /** Undefined: either mode; a live transaction takes precedence. */
  readonly live: boolean | undefined
}

/**
 * Transactions of any business by bank, session and mode, in the order of the keys.
 */
export async function findRecorded(
  pool: Queryable,
  keys: readonly RecordedKey[],
): Promise<readonly (RecordedTransaction | undefined)[]> {
  const result = await pool.query<
    TransactionRow & { at: number; connector: ConnectorName; account_id: string }
  >({
    name: 'transaction-find-recorded',
    text: `select k.at::int4 as at, a.connector, t.account_id, ${TRANSACTION_COLUMNS}
      from unnest((select $1::text[]), (select $2::text[]), (select $3::boolean[]))
        with ordinality as k(bank, session_id, live, at)
      join lateral (
        select t.* from (
            select transaction_id from payment_session s
            where s.session_id = k.session_id and s.bank = k.bank and s.live = coalesce(k.live, s.live)
            offset 0) s
          cross join lateral (select * from transaction t where t.id = s.transaction_id offset 0) t
      ) t on true
      join account a on a.id = t.account_id
      order by t.live`,
    values: [
      textArray(keys.map((key) => key.bank)),
      textArray(keys.map((key) => key.sessionId)),
      booleanArray(keys.map((key) => key.live ?? null)),
    ],
  })
  const found: (RecordedTransaction | undefined)[] = new Array(keys.length).fill(undefined)
  for (const row of result.rows) {
    const { connector, account_id: accountId } = row
    found[row.at - 1] = { ...toStored(row), connector, accountId }
  }
  return found
}

/**
 * Returns one transaction of any business. Locks the row and prevents its settlement until the commit. An earlier
 * settlement has been committed by then and is visible.
 */
export async function lockTransaction(
  client: PoolClient,
  id: string,
): Promise<StoredTransaction | undefined> {
  await client.query({
    name: 'transaction-lock-settled',
    text: `select lock_settled(business_id, live, true) from transaction where id = $1
      for no key update`,
    values: [id],
  })
  // A separate statement, so that its snapshot is later than the locks: it must see what their last holder wrote into
  // other tables, such as a decision about a held payment.
  return findTransactionById(client, id)
}

/** One transaction of any business. */
export async function findTransactionById(
  on: Queryable,
  id: string,
): Promise<StoredTransaction | undefined> {
  const result = await on.query<TransactionRow>({
    name: 'transaction-find',
    text: `select ${TRANSACTION_COLUMNS} from transaction t join account a on a.id = t.account_id
      where t.id = $1`,
    values: [id],
  })
  return result.rows[0] && toStored(result.rows[0])
}

export function toStored(row: TransactionRow): StoredTransaction {
  return {
    id: row.id,
    bank: row.bank,
    sessionId: row.session_id,
    amountMinor: BigInt(row.amount_minor),
    status: row.status,
    settled: row.settled,
    imported: row.imported_settled !== null,
    paidAtMs: row.paid_at_ms,
    createdAtMs: row.created_at_ms,
    narration: row.narration,
    recordedBy: row.recorded_by,
    traceparent: row.traceparent ?? undefined,
    payer: {
      name: row.payer_name,
      accountNumber: row.payer_account_number,
      bankCode: row.payer_bank_code,
      bankName: row.payer_bank_name,
    },
    account: {
      businessId: row.business_id,
      live: row.live,
      reference: row.reference,
      merchantReference: row.merchant_reference,
      accountNumber: row.account_number,
      accountName: row.account_name,
      firstName: row.first_name,
      lastName: row.last_name,
      email: row.email,
      createdAtMs: row.account_created_at_ms,
      terms: expectationOf(row.one_time, row.expected_amount_minor),
      metadata: row.metadata ?? undefined,
    },
    variance: toVariance(row.variance),
  }
}

type ShownRow = [
  at: number,
  sessionId: string,
  bank: BankCode,
  amountMinor: string,
  status: TransactionStatus,
  settled: boolean,
  paidAtMs: number,
  reference: string,
  accountNumber: string,
  accountName: string,
  firstName: string,
  lastName: string,
  email: string,
  oneTime: boolean,
  expectedAmountMinor: string | null,
  metadata: Metadata | null,
  variance: VarianceArray | null,
]

function toShown(row: ShownRow): ShownTransaction {
  return {
    sessionId: row[1],
    bank: row[2],
    amountMinor: BigInt(row[3]),
    status: row[4],
    settled: row[5],
    paidAtMs: row[6],
    account: {
      reference: row[7],
      accountNumber: row[8],
      accountName: row[9],
      firstName: row[10],
      lastName: row[11],
      email: row[12],
      terms: expectationOf(row[13], row[14]),
      metadata: row[15] ?? undefined,
    },
    variance: toVariance(row[16]),
  }
}

function toVariance(row: VarianceArray | null): PaymentVariance | undefined {
  if (row === null) return undefined
  const [variance, hold, decidedAtMs, returnReason] = row
  return { variance, hold: hold ?? undefined, decidedAtMs: decidedAtMs ?? undefined, returnReason }
}

/** The account terms that a transaction shows; undefined for a permanent account. */
function expectationOf(oneTime: boolean, expectedAmountMinor: string | null) {
  if (!oneTime) return undefined
  const amountMinor = expectedAmountMinor === null ? undefined : BigInt(expectedAmountMinor)
  return { expectedAmountMinor: amountMinor }
}
