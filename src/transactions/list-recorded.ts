import type { BankCode } from '../banks/bank.ts'
import { DAY_MS } from '../core/durations.ts'
import { newId } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutScan, readPage } from '../postgres/page-token.ts'
import type { RecordedPayment } from './find-reported.ts'

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

/** How many transactions one page reads, of any bank and time. */
const SCANNED_MAX = 20_000

/** How far a bank's clock may be ahead: a payment is recorded after it was paid. */
const CLOCKS_APART_MS = DAY_MS

/**
 * Lists the payments recorded at a bank, in recording order. An index by bank would slow down every
 * payment; ids are in time order, so this reads the primary key.
 */
export async function listRecorded(
  pool: Queryable,
  { bank, fromMs, toMs, pageSize, pageToken }: Listing,
): Promise<{ readonly payments: readonly ListedPayment[]; readonly nextPageToken: string }> {
  const page = readPage(pageSize, pageToken, 1)
  const first = newId('txn', Math.max(fromMs - CLOCKS_APART_MS, 0)).slice(0, 14)
  const { rows } = await pool.query<Row>({
    name: 'transaction-list-recorded',
    text: `with page as materialized (
        select * from (
          select id, bank, live, session_id, account_id, amount_minor, status, paid_at
          from transaction where id > $1 order by id limit ${SCANNED_MAX}
        ) candidate where bank = $2 and live and paid_at >= $3 and paid_at < $4
        order by id limit $5
      ), edge as (
        select case when (select count(*) from page) < $5 then (
          select id from transaction where id > $1 order by id offset ${SCANNED_MAX - 1} limit 1
        ) end as read_up_to
      )
      select edge.read_up_to, t.id as "transactionId", t.session_id as "sessionId",
        a.account_number as "accountNumber", t.amount_minor as "amountMinor", t.status,
        round(date_part('epoch', t.paid_at) * 1000) as "paidAtMs"
      from edge left join (page t join account a on a.id = t.account_id) on true
      order by t.id`,
    values: [page.after?.[0] ?? first, bank, new Date(fromMs), new Date(toMs), page.limit + 1],
  })
  const found = rows.flatMap(({ read_up_to: _, ...row }): ListedPayment[] =>
    row.transactionId === null
      ? []
      : // The driver returns a bigint as text.
        [{ ...row, amountMinor: BigInt(row.amountMinor) }],
  )
  const edge = rows[0]?.read_up_to && [rows[0].read_up_to]
  const cut = cutScan(found, page, ({ transactionId }) => [transactionId], edge)
  return { payments: cut.rows, nextPageToken: cut.nextPageToken }
}

/** The fields of the payment are null if none of the transactions read is requested. */
type Row = { readonly read_up_to: string | null } & (
  | ListedPayment
  | { readonly transactionId: null }
)
