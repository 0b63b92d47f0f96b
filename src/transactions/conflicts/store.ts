import { joinAccount } from '../../accounts/account.sql.ts'
import type { BankCode } from '../../banks/bank.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { joinTransaction } from '../transaction.sql.ts'
import type { TransactionStatus } from '../transaction.ts'
import type { ListedConflict } from './payment-conflict.ts'

interface Row {
  readonly id: string
  readonly bank: BankCode
  readonly transaction_id: string
  readonly account_number: string
  readonly amount_minor: string
  readonly status: TransactionStatus
  readonly created_at_ms: number
  readonly resolved_at_ms: number | null
  readonly note: string
  readonly session_id: string
  readonly business_id: string
  readonly recorded_account_number: string
  readonly recorded_amount_minor: string
}

/** The reports `c`, each with the transaction and the account that it contradicts. */
const listed = (
  c: string,
) => `select c.id, t.bank, c.transaction_id, c.account_number, c.amount_minor,
    c.status, ${epochMs('c.created_at')} as created_at_ms,
    ${epochMs('c.resolved_at')} as resolved_at_ms, c.note, t.session_id, t.business_id,
    a.account_number as recorded_account_number, t.amount_minor as recorded_amount_minor
  from (${c}) c ${joinTransaction('c.transaction_id')} ${joinAccount('t.account_id')}
  order by c.id desc`

/**
 * The unresolved reports, newest first.
 *
 * @param afterId the last report of the page before
 */
export async function listOpenConflicts(
  on: Queryable,
  afterId: string | undefined,
  limit: number,
): Promise<readonly ListedConflict[]> {
  const values: unknown[] = afterId === undefined ? [limit] : [limit, afterId]
  const { rows } = await on.query<Row>(
    listed(`select * from payment_conflict where resolved_at is null
      ${afterId === undefined ? '' : 'and id < $2'} order by id desc limit $1`),
    values,
  )
  return rows.map(toListed)
}

/** The reports that contradict a transaction, resolved ones included, oldest first. */
export async function listConflictsOf(
  on: Queryable,
  transactionId: string,
  limit: number,
): Promise<readonly ListedConflict[]> {
  const { rows } = await on.query<Row>(
    listed('select * from payment_conflict where transaction_id = $1 order by id limit $2'),
    [transactionId, limit],
  )
  return rows.map(toListed).reverse()
}

export async function findConflict(on: Queryable, id: string): Promise<ListedConflict | undefined> {
  const { rows } = await on.query<Row>(listed('select * from payment_conflict where id = $1'), [id])
  return rows[0] && toListed(rows[0])
}

/** @returns whether the report was open */
export async function closeConflict(
  on: Queryable,
  id: string,
  note: string,
  nowMs: number,
): Promise<boolean> {
  const { rowCount } = await on.query(
    `update payment_conflict set resolved_at = $2, note = $3
      where id = $1 and resolved_at is null`,
    [id, new Date(nowMs), note],
  )
  return rowCount === 1
}

function toListed(row: Row): ListedConflict {
  return {
    id: row.id,
    bank: row.bank,
    transaction: row.transaction_id,
    sessionId: row.session_id,
    accountNumber: row.account_number,
    amountMinor: BigInt(row.amount_minor),
    status: row.status,
    createdAt: new Date(row.created_at_ms),
    resolvedAtMs: row.resolved_at_ms ?? undefined,
    note: row.note,
    recorded: {
      businessId: row.business_id,
      recordedAccountNumber: row.recorded_account_number,
      recordedAmountMinor: BigInt(row.recorded_amount_minor),
    },
  }
}
