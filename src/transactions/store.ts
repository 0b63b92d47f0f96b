import type { Pool } from 'pg'
import { runStatement } from '../postgres/batcher.ts'
import {
  bigintArray,
  booleanArray,
  byteaArray,
  textArray,
  timestampArray,
} from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { IncomingPayment } from './transaction.ts'
import { CREDITED, type Decided } from './variance/variance.ts'

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
 * Records payments whose session is new and whose account is open: sessions, transactions, ledger postings
 * and events, in one statement and so in one commit. A live payment that is returned to its payer, or
 * was, is not recorded; a row lock prevents a concurrent return.
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

export function recordStatement(rows: readonly NewTransaction[]) {
  return {
    name: 'transaction-record',
    // The rows whose money has arrived are found by "is true" and not by a join: the planner expects one recorded row,
    // and would compare each row of a batch with each. It hashes the ids of a subquery that it cannot turn into a join.
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
          $6::bigint[], $7::text[], $8::timestamptz[], $9::timestamptz[], $10::text[],
          $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bytea[],
          $17::boolean[], $18::text[], $19::text[]) with ordinality
          as i(id, business_id, account_id, bank, session_id, amount_minor, status, paid_at,
            created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
            narration, event_id, payload, live, recorded_by, traceparent, at)
      ), unmatched as materialized (
        -- Locked in the same order as an operator's resolution locks them, to prevent deadlocks.
        select session_id, bank, resolution from unmatched_payment
        where session_id = any ($5::text[]) order by id for share
      ), new_session as (
        insert into payment_session (session_id, bank, live, transaction_id)
        select session_id, bank, live, id from input i
        where exists (select from account where account.id = i.account_id and account.live = i.live
            and account.status in ('ACTIVE', 'EXPIRED'))
          and not (i.live and exists (select from unmatched u
            where u.session_id = i.session_id and u.bank = i.bank and u.resolution in ('RETURNED', 'RETURNING')))
        -- Every batch inserts index entries in the same order, to prevent deadlocks. Of a session that is
        -- repeated, the first row is inserted.
        order by session_id, bank, live, at
        on conflict (session_id, bank, live) do nothing returning transaction_id
      ), recorded as (
        insert into transaction (id, business_id, account_id, live, bank, session_id,
          amount_minor, status, paid_at, created_at, payer_name, payer_account_number,
          payer_bank_code, payer_bank_name, narration, recorded_by, traceparent)
        select id, business_id, account_id, live, bank, session_id, amount_minor, status, paid_at,
          created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration,
          recorded_by, traceparent
        from input join new_session on transaction_id = id returning id
      ), posted as (
        insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
          credit_account, amount_minor, created_at)
        select id, 'payment', business_id, live, 'clearing:' || bank, 'pending', amount_minor, created_at
        from input where status = 'SUCCESS' and (id in (select id from recorded)) is true
      ), published as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
          pending_minor)
        select event_id, business_id, live, 'PAYMENT_NOTIFICATION', created_at, payload, id, amount_minor
        from input where status = 'SUCCESS' and (id in (select id from recorded)) is true
      )
      select id from recorded`,
    values: recordValues(rows),
  }
}

/** The values of `$1` to `$19` of the statements that record payments. */
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

/** The final state of a pending transaction, with its event. */
export type Finalization = Pick<
  NewTransaction,
  | 'id'
  | 'status'
  | 'createdAtMs'
  | 'payer'
  | 'narration'
  | 'eventId'
  | 'payload'
  | 'recordedBy'
  | 'traceparent'
>

/**
 * Finalizes pending transactions into permanent accounts. A successful transaction gets its posting and event.
 *
 * @returns the event ids of the rows that were applied: at most one for each transaction, and none
 * for a transaction that was already final
 */
export async function finalizeTransactions(
  pool: Pool,
  rows: readonly Finalization[],
): Promise<ReadonlySet<string>> {
  const decided = rows.map((row) => ({ ...row, ...CREDITED }))
  const result = await runStatement<{ event_id: string }>(pool, finalizeStatement(decided))
  return new Set(result.rows.map((row) => row.event_id))
}

/** The same in the caller's transaction, which has locked one-time accounts. A held payment changes no balance. */
export async function finalizeOn(
  on: Queryable,
  rows: readonly (Finalization & Decided)[],
): Promise<ReadonlySet<string>> {
  const result = await on.query<{ event_id: string }>(finalizeStatement(rows))
  return new Set(result.rows.map((row) => row.event_id))
}

function finalizeStatement(rows: readonly (Finalization & Decided)[]) {
  return {
    name: 'transaction-finalize',
    text: `with input as (
        -- The first report of a payment finalizes it.
        select distinct on (id) * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[],
          $5::bytea[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
          $12::text[], $13::text[], $14::text[], $15::boolean[]) with ordinality
          as i(id, new_status, recorded_at, event_id, payload, finalized_by, finalized_in, new_name,
            new_account_number, new_bank_code, new_bank_name, new_narration, variance, hold, is_use, at)
        order by id, at
      ), locked as (
        -- Every statement locks in this order, to prevent deadlocks.
        select id from transaction where id = any ($1::text[]) and status = 'PENDING'
        order by id for no key update
      ), finalized as (
        -- The settlement date is counted from created_at, so it becomes the time of finalization.
        update transaction t set status = new_status, created_at = recorded_at,
          recorded_by = finalized_by, traceparent = finalized_in, payer_name = new_name,
          payer_account_number = new_account_number, payer_bank_code = new_bank_code,
          payer_bank_name = new_bank_name, narration = new_narration
        from input join locked using (id) where t.id = input.id
        returning t.*, event_id, payload, variance, hold, is_use
      ), posted as (
        insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
          credit_account, amount_minor, created_at)
        select id, 'payment', business_id, live, 'clearing:' || bank,
          case when hold is null then 'pending' else 'held' end, amount_minor, created_at
        from finalized where status = 'SUCCESS'
      ), published as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
          pending_minor)
        select event_id, business_id, live,
          case when hold is null then 'PAYMENT_NOTIFICATION' else 'PAYMENT_ON_HOLD' end, created_at,
          payload, id, case when hold is null then amount_minor else 0 end
        from finalized where status = 'SUCCESS'
      ), varied as (
        insert into payment_variance (transaction_id, business_id, live, account_id, variance, hold, is_use)
        select id, business_id, live, account_id, variance, hold, is_use
        from finalized where variance is not null
      )
      select event_id from finalized`,
    values: [
      textArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.status)),
      timestampArray(rows.map((row) => row.createdAtMs)),
      textArray(rows.map((row) => row.eventId)),
      byteaArray(rows.map((row) => row.payload)),
      textArray(rows.map((row) => row.recordedBy)),
      textArray(rows.map((row) => row.traceparent ?? null)),
      textArray(rows.map((row) => row.payer.name)),
      textArray(rows.map((row) => row.payer.accountNumber)),
      textArray(rows.map((row) => row.payer.bankCode)),
      textArray(rows.map((row) => row.payer.bankName)),
      textArray(rows.map((row) => row.narration)),
      ...decidedValues(rows),
    ],
  }
}

/** The last three values of the statements that write decided payments. */
export function decidedValues(rows: readonly Decided[]): Buffer[] {
  return [
    textArray(rows.map((row) => row.variance)),
    textArray(rows.map((row) => row.hold)),
    booleanArray(rows.map((row) => row.isUse)),
  ]
}
