import type { Pool } from 'pg'
import type { BankCode, ConnectorName } from '../banks/bank.ts'
import { HOUR_MS } from '../core/durations.ts'
import { firstIdAt } from '../core/ids.ts'
import { bigintArray, textArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Resolution, TransactionStatus } from './transaction.ts'

/** A payment as a bank's list or statement describes it. */
export interface ReportedPayment {
  readonly sessionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: Exclude<TransactionStatus, 'PENDING'>
}

/** The transaction with the session id of a reported payment. */
export interface RecordedPayment {
  readonly transactionId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: TransactionStatus
}

/** The records that match a reported payment. */
export interface FoundPayment {
  readonly recorded: RecordedPayment | undefined
  /** The connector that opened the account of the transaction; null if none is recorded. */
  readonly connector: ConnectorName | null
  /** Whether the payment was reported before, while no account was open for it. */
  readonly isUnmatched: boolean
  /** The operator's decision on the unmatched payment. */
  readonly resolution: Resolution | null
  /** Whether its account number belongs to an open account that may be credited. */
  readonly isAccountOpen: boolean
  /** Whether it contradicts the transaction and is already in manual review. */
  readonly conflictRecorded: boolean
}

interface Row extends Omit<FoundPayment, 'recorded'>, Omit<RecordedPayment, 'transactionId'> {
  /** Null if no transaction is recorded; its other columns are then null, too. */
  readonly transactionId: string | null
}

/**
 * Finds the records that match the payments reported by a bank, in the order of the payments.
 *
 * @param isSimulated whether the sandbox serves the bank, so that its accounts may be credited too
 */
export async function findReported(
  pool: Pool,
  bank: BankCode,
  isSimulated: boolean,
  reported: readonly ReportedPayment[],
): Promise<FoundPayment[]> {
  const result = await pool.query<Row>({
    name: 'transaction-find-reported',
    text: `select t.id as "transactionId", a.account_number as "accountNumber",
        t.amount_minor as "amountMinor", t.status, a.connector,
        -- As in resolutionsOf: an operator may have decided while the payment was pending.
        (select d.resolution from unmatched_payment d where d.session_id = r.session_id and d.bank = $1
          and d.account_number = r.account_number and d.amount_minor = r.amount_minor
          and d.resolution is not null order by d.resolution = 'ASSIGNED' desc limit 1) as resolution,
        u.id is not null as "isUnmatched",
        exists (select from account where account.account_number = r.account_number
          and account.bank = $1 and account.live and account.status in ('ACTIVE', 'EXPIRED')
          and account.connector = any ($6::text[])) as "isAccountOpen",
        exists (select from payment_conflict c
          where c.transaction_id = t.id and c.account_number = r.account_number
            and c.amount_minor = r.amount_minor and c.status = r.status offset 0) as "conflictRecorded"
      from unnest((select $2::text[]), (select $3::text[]), (select $4::bigint[]), (select $5::text[]))
        with ordinality as r(session_id, account_number, amount_minor, status, at)
      left join lateral (
        -- "offset 0" keeps the planner on the indexes, also while the tables are small: the plan is kept.
        select t.* from (
            select transaction_id from payment_session s
            where s.session_id = r.session_id and s.bank = $1 and s.live offset 0) s
          cross join lateral (select * from transaction t where t.id = s.transaction_id offset 0) t
      ) t on true
      left join account a on a.id = t.account_id
      left join unmatched_payment u on u.session_id = r.session_id and u.bank = $1
        and u.account_number = r.account_number and u.amount_minor = r.amount_minor
        and u.status = 'SUCCESS'
      order by r.at`,
    values: [
      bank,
      textArray(reported.map(({ sessionId }) => sessionId)),
      textArray(reported.map(({ accountNumber }) => accountNumber)),
      bigintArray(reported.map(({ amountMinor }) => amountMinor)),
      textArray(reported.map(({ status }) => status)),
      textArray(isSimulated ? ['live', 'sandbox'] : ['live']),
    ],
  })
  return result.rows.map(toFound)
}

function toFound({
  transactionId,
  accountNumber,
  amountMinor,
  status,
  ...found
}: Row): FoundPayment {
  if (transactionId === null) return { ...found, recorded: undefined }
  // The driver returns a bigint as text.
  const recorded = { transactionId, accountNumber, amountMinor: BigInt(amountMinor), status }
  return { ...found, recorded }
}

/** Finds the accounts with a payment that was made at or after a time. */
export async function findPaidAccounts(
  pool: Pool,
  accountIds: readonly string[],
  sinceMs: number,
): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ id: string }>({
    name: 'transaction-find-paid-accounts',
    text: `select requested.id from unnest($1::text[]) as requested(id) cross join lateral (
        select from transaction t where t.account_id = requested.id and t.paid_at >= $2 limit 1
      ) paid`,
    values: [accountIds, new Date(sinceMs)],
  })
  return new Set(rows.map(({ id }) => id))
}

/** How far the clock of another instance may be behind. */
const CLOCKS_APART_MS = HOUR_MS

/** An imported account, and when it was imported. */
interface ImportedAccount {
  readonly id: string
  readonly importedAtMs: number
}

/**
 * Finds the imported accounts for whose number a payment was reported, which confirms the number. Imported payments do
 * not count, nor do payments that an operator assigned from another account number.
 *
 * For an account without such a payment, the query reads all its imported payments.
 */
export async function findConfirmedAccounts(
  on: Queryable,
  accounts: readonly ImportedAccount[],
): Promise<ReadonlySet<string>> {
  const { rows } = await on.query<{ id: string }>({
    name: 'transaction-find-confirmed-accounts',
    // The latest payments first, because imported payments are earlier. Ids begin with the time, so the second
    // condition leaves out the older partitions.
    text: `select imported.id from unnest($1::text[], $2::text[]) as imported(id, first_id)
      join account a on a.id = imported.id cross join lateral (
        select from transaction t
        where t.account_id = imported.id and t.id >= imported.first_id and t.imported_settled is null
          and t.status in ('SUCCESS', 'REVERSED')
          and (t.recorded_by not like 'assignment:%' or exists (
            select from unmatched_payment u
            where u.session_id = t.session_id and u.bank = t.bank and u.account_number = a.account_number))
        order by t.paid_at desc limit 1
      ) paid`,
    values: [
      accounts.map(({ id }) => id),
      accounts.map(({ importedAtMs }) => firstIdAt('txn', importedAtMs - CLOCKS_APART_MS)),
    ],
  })
  return new Set(rows.map(({ id }) => id))
}
