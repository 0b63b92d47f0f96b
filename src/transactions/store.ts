import type { Pool } from 'pg'
import { isAccountOpen } from '../accounts/account.sql.ts'
import { appendEvents } from '../events/append-events.ts'
import { runStatement } from '../postgres/batcher.ts'
import {
  bigintArray,
  booleanArray,
  byteaArray,
  textArray,
  timestampArray,
} from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { appendPostings, PAYMENT_POSTING } from './ledger/append-postings.ts'
import type { IncomingPayment } from './transaction.ts'

/** A payment about to be recorded. */
export interface NewTransaction extends Omit<IncomingPayment, 'live' | 'span'> {
  readonly id: string
  readonly accountId: string
  readonly businessId: string
  readonly live: boolean
  readonly createdAtMs: number
  readonly eventId: string
  /** The serialized event; only a successful payment has one. */
  readonly payload: Uint8Array | null
}

/**
 * The recorded rows whose money has arrived. Not a join: the planner expects one recorded row, and would compare
 * each row of a batch with each. It hashes the ids of a subquery that it cannot turn into a join.
 */
const RECORDED = "from input where status = 'SUCCESS' and (id in (select id from recorded)) is true"

/**
 * The outbox columns of a payment event: the source has columns of `transaction` and of the event.
 */
export const PAYMENT_EVENT = {
  kind: "'PAYMENT_NOTIFICATION'",
  subject_id: 'id',
  pending_minor: 'amount_minor',
}

/**
 * The SQL that inserts sessions, as a part of the statement that inserts their transactions. It returns the
 * `transaction_id` of those that are new.
 *
 * @param rows SQL: session_id, bank, live, transaction_id
 */
export function insertSessions(rows: string): string {
  return `insert into payment_session (session_id, bank, live, transaction_id) ${rows}
        on conflict (session_id, bank, live) do nothing returning transaction_id`
}

/**
 * Records payments whose session is new and whose account is open: sessions, transactions, ledger postings
 * and events, in one statement and so in one commit. A live payment that an operator returned to
 * its payer is not recorded; a row lock prevents a concurrent return.
 *
 * @returns the ids recorded; for the others, the session is already recorded or was returned, or
 * the account is not open
 */
export async function insertTransactions(
  pool: Pool,
  rows: readonly NewTransaction[],
): Promise<ReadonlySet<string>> {
  const result = await runStatement<{ id: string }>(pool, recordStatement(rows))
  return new Set(result.rows.map((row) => row.id))
}

function recordStatement(rows: readonly NewTransaction[]) {
  return { name: 'transaction-record', text: RECORD, values: recordValues(rows) }
}

/** The same in the caller's transaction. @returns how many payments it recorded */
export async function recordOn(on: Queryable, rows: readonly NewTransaction[]): Promise<number> {
  return (await on.query(recordStatement(rows))).rows.length
}

/** The parts of a statement that differ between permanent and one-time accounts. */
export interface RecordParts {
  /** SQL: further columns of the input, after a comma; empty: none. */
  readonly columns: string
  readonly posting: typeof PAYMENT_POSTING
  readonly event: typeof PAYMENT_EVENT
  /** SQL: further subqueries, after a comma, given the source of the rows whose money has arrived. */
  readonly further: (source: string) => string
}

const PERMANENT: RecordParts = {
  columns: '',
  posting: PAYMENT_POSTING,
  event: PAYMENT_EVENT,
  further: () => '',
}

const RECORD = recordText(PERMANENT)

const FINALIZE = finalizeText(PERMANENT)

/** SQL that records payments, with parameters from $20 on for further columns. It returns the ids recorded. */
export function recordText({ columns, posting, event, further }: RecordParts, arrays = ''): string {
  return `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
          $6::bigint[], $7::text[], $8::timestamptz[], $9::timestamptz[], $10::text[],
          $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bytea[],
          $17::boolean[], $18::text[], $19::text[]${arrays}) with ordinality
          as i(id, business_id, account_id, bank, session_id, amount_minor, status, paid_at,
            created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
            narration, event_id, payload, live, recorded_by, traceparent${columns}, at)
      ), unmatched as materialized (
        -- Locked in the same order as an operator's resolution locks them, to prevent deadlocks.
        select session_id, bank, resolution from unmatched_payment
        where session_id = any ($5::text[]) order by id for share
      ), new_session as (
        ${insertSessions(`select session_id, bank, live, id from input i
        where ${isAccountOpen('i.account_id', 'i.live')}
          and not (i.live and exists (select from unmatched u
            where u.session_id = i.session_id and u.bank = i.bank and u.resolution = 'RETURNED'))
        -- Every batch inserts index entries in the same order, to prevent deadlocks. Of a session that is
        -- repeated, the first row is inserted.
        order by session_id, bank, live, at`)}
      ), recorded as (
        insert into transaction (id, business_id, account_id, live, bank, session_id,
          amount_minor, status, paid_at, created_at, payer_name, payer_account_number,
          payer_bank_code, payer_bank_name, narration, recorded_by, traceparent)
        select id, business_id, account_id, live, bank, session_id, amount_minor, status, paid_at,
          created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration,
          recorded_by, traceparent
        from input join new_session on transaction_id = id returning id
      ), posted as (
        ${appendPostings(posting, RECORDED)}
      ), published as (
        ${appendEvents(event, RECORDED)}
      )${further(RECORDED)}
      select id from recorded`
}

export function recordValues(rows: readonly NewTransaction[]): Buffer[] {
  return [
    textArray(rows.map((row) => row.id)),
    textArray(rows.map((row) => row.businessId)),
    textArray(rows.map((row) => row.accountId)),
    textArray(rows.map((row) => row.bank)),
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
    booleanArray(rows.map((row) => row.live)),
    textArray(rows.map((row) => row.recordedBy)),
    textArray(rows.map((row) => row.traceparent ?? null)),
  ]
}

/** The final status of a pending transaction, with its event. */
export type Finalization = Pick<
  NewTransaction,
  'id' | 'status' | 'createdAtMs' | 'eventId' | 'payload' | 'recordedBy' | 'traceparent'
>

/**
 * Finalizes pending transactions. A successful one gets its posting and event.
 *
 * @returns the event ids of the rows that were applied: at most one for each transaction, and none
 * for a transaction that was already final
 */
export async function finalizeTransactions(
  pool: Pool,
  rows: readonly Finalization[],
): Promise<ReadonlySet<string>> {
  const result = await runStatement<{ event_id: string }>(pool, {
    name: 'transaction-finalize',
    text: FINALIZE,
    values: finalizeValues(rows),
  })
  return new Set(result.rows.map((row) => row.event_id))
}

/** SQL that finalizes payments, with parameters from $8 on for further columns. It returns the event ids. */
export function finalizeText(
  { columns, posting, event, further }: RecordParts,
  arrays = '',
): string {
  const successful = "from finalized where status = 'SUCCESS'"
  return `with input as (
        -- The first report of a payment finalizes it.
        select distinct on (id) * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[],
          $5::bytea[], $6::text[], $7::text[]${arrays}) with ordinality
          as i(id, new_status, recorded_at, event_id, payload, finalized_by, finalized_in${columns}, at)
        order by id, at
      ), locked as (
        -- Every statement locks in this order, to prevent deadlocks.
        select id from transaction where id = any ($1::text[]) and status = 'PENDING'
        order by id for no key update
      ), finalized as (
        -- The settlement date is counted from created_at, so it becomes the time of finalization.
        update transaction t set status = new_status, created_at = recorded_at,
          recorded_by = finalized_by, traceparent = finalized_in
        from input join locked using (id) where t.id = input.id
        returning t.*, event_id, payload${columns}
      ), posted as (
        ${appendPostings(posting, successful)}
      ), published as (
        ${appendEvents(event, successful)}
      )${further(successful)}
      select event_id from finalized`
}

export function finalizeValues(rows: readonly Finalization[]): Buffer[] {
  return [
    textArray(rows.map((row) => row.id)),
    textArray(rows.map((row) => row.status)),
    timestampArray(rows.map((row) => row.createdAtMs)),
    textArray(rows.map((row) => row.eventId)),
    byteaArray(rows.map((row) => row.payload)),
    textArray(rows.map((row) => row.recordedBy)),
    textArray(rows.map((row) => row.traceparent ?? null)),
  ]
}
