import type { Pool } from 'pg'
import { appendEvents } from '../../events/append-events.ts'
import { bigintArray, byteaArray, textArray, timestampArray } from '../../postgres/binary-arrays.ts'
import { inTransaction, type Queryable } from '../../postgres/in-transaction.ts'
import { lockReported, resolutionsOf } from './store.ts'
import type { UnmatchedPayment } from './unmatched-payment.ts'

/** An unmatched payment about to be stored, with its event. */
export interface NewUnmatched extends UnmatchedPayment {
  readonly eventId: string
  readonly payload: Uint8Array
}

/** What became of reports of unmatched payments, by the ids of their rows. */
interface InsertedReports {
  readonly inserted: ReadonlySet<string>
  /** An operator has assigned their payments in the meantime, so they are reports of recorded payments. */
  readonly assigned: ReadonlySet<string>
}

/**
 * Stores unmatched payments and their events in one commit. The same report is stored once. The
 * event belongs to no business.
 */
export function insertUnmatched(
  pool: Pool,
  rows: readonly NewUnmatched[],
): Promise<InsertedReports> {
  return inTransaction(pool, async (client) => {
    await lockReported(client, rows)
    const resolutions = await resolutionsOf(client, rows)
    const assigned = rows.filter((_, index) => resolutions[index] === 'ASSIGNED')
    const rest = rows.filter((_, index) => resolutions[index] !== 'ASSIGNED')
    const inserted = rest.length > 0 ? await insert(client, rest) : new Set<string>()
    return { inserted, assigned: new Set(assigned.map(({ id }) => id)) }
  })
}

async function insert(
  client: Queryable,
  rows: readonly NewUnmatched[],
): Promise<ReadonlySet<string>> {
  const result = await client.query<{ id: string }>({
    name: 'unmatched-payment-insert',
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[],
          $6::text[], $7::timestamptz[], $8::timestamptz[], $9::text[], $10::text[], $11::text[],
          $12::text[], $13::text[], $14::text[], $15::bytea[])
          as i(id, bank, account_number, session_id, amount_minor, status, paid_at, created_at,
            payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration,
            event_id, payload)
      ), inserted as (
        insert into unmatched_payment (id, bank, account_number, session_id, amount_minor, status,
          paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
          narration)
        select id, bank, account_number, session_id, amount_minor, status, paid_at, created_at,
          payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration
        from input order by session_id, bank, account_number, amount_minor, status
        on conflict do nothing returning id
      ), published as (
        ${appendEvents(UNMATCHED_EVENT, 'from input join inserted using (id)')}
      )
      select id from inserted`,
    values: [
      textArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.bank)),
      textArray(rows.map((row) => row.accountNumber)),
      textArray(rows.map((row) => row.sessionId)),
      bigintArray(rows.map((row) => row.amountMinor)),
      textArray(rows.map((row) => row.status)),
      timestampArray(rows.map((row) => row.paidAtMs)),
      timestampArray(rows.map((row) => row.createdAtMs)),
      textArray(rows.map((row) => row.payer.name)),
      textArray(rows.map((row) => row.payer.accountNumber)),
      textArray(rows.map((row) => row.payer.bankCode)),
      textArray(rows.map((row) => row.payer.bankName)),
      textArray(rows.map((row) => row.narration)),
      textArray(rows.map((row) => row.eventId)),
      byteaArray(rows.map((row) => row.payload)),
    ],
  })
  return new Set(result.rows.map((row) => row.id))
}

/** The event belongs to no business, so only operators receive it. */
const UNMATCHED_EVENT = { kind: "'PAYMENT_UNMATCHED'", business_id: "''", live: 'true' }
