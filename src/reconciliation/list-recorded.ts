import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { newId } from '../ids.ts'
import { epochMs } from '../store/epoch-ms.ts'
import { pageTokenOf, readPage } from '../store/page-token.ts'
import type { TransactionStatus } from '../transactions/transaction.ts'
import type { RecordedPayment } from './find-told.ts'

export interface ListedPayment extends RecordedPayment {
  readonly sessionId: string
  readonly paidAtMs: number
}

interface Listing {
  readonly bank: BankCode
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
  readonly pageSize: number
  readonly pageToken: string
}

/** How many transactions one page looks at, whatever bank and time they are of. */
const SCANNED_MAX = 20_000

/** By how much a bank's clock may be ahead: a payment is recorded after it was paid. */
const CLOCKS_APART_MS = 86_400_000

/**
 * The payments recorded at a bank, in the order of their recording. No index has them by bank, as it
 * would cost every payment; ids are in the order of time, so the primary key will do.
 */
export async function listRecorded(
  pool: Pool,
  { bank, fromMs, toMs, pageSize, pageToken }: Listing,
): Promise<{ readonly payments: readonly ListedPayment[]; readonly nextPageToken: string }> {
  const page = readPage(pageSize, pageToken, 1)
  const first = newId('txn', Math.max(fromMs - CLOCKS_APART_MS, 0)).slice(0, 14)
  const rows = await scan(pool, [
    page.after?.[0] ?? first,
    SCANNED_MAX,
    bank,
    new Date(fromMs),
    new Date(toMs),
    page.limit,
  ])
  const payments = rows.flatMap((row) => (row.id === null ? [] : [toListed(row)]))
  const full = payments.length === page.limit
  const last = full ? payments.at(-1)?.transactionId : rows[0]?.last_id
  const more = full || rows[0]?.scanned === SCANNED_MAX
  return { payments, nextPageToken: more && last ? pageTokenOf([last]) : '' }
}

interface Row {
  /** Of the transactions that were looked at. */
  last_id: string | null
  scanned: number
  /** Null when none of them is wanted; then the rest is too. */
  id: string | null
  session_id: string
  account_number: string
  amount_minor: string
  status: TransactionStatus
  paid_at_ms: number
}

async function scan(pool: Pool, values: readonly unknown[]): Promise<Row[]> {
  const result = await pool.query<Row>({
    name: 'reconciliation-list-recorded',
    text: `with scanned as materialized (
        select id, bank, live, session_id, account_id, amount_minor, status, paid_at from transaction
        where id > $1 order by id limit $2
      )
      select s.last_id, s.scanned, w.*
      from (select max(id) as last_id, count(*)::int as scanned from scanned) s
      left join lateral (
        select t.id, t.session_id, a.account_number, t.amount_minor, t.status,
          ${epochMs('t.paid_at')} as paid_at_ms
        from scanned t join account a on a.id = t.account_id
        where t.bank = $3 and t.live and t.paid_at >= $4 and t.paid_at < $5 order by t.id limit $6
      ) w on true
      order by w.id`,
    values: [...values],
  })
  return result.rows
}

function toListed(row: Row): ListedPayment {
  return {
    transactionId: row.id ?? '',
    sessionId: row.session_id,
    accountNumber: row.account_number,
    amountMinor: BigInt(row.amount_minor),
    status: row.status,
    paidAtMs: row.paid_at_ms,
  }
}
