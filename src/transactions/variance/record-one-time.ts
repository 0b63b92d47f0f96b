import type { PoolClient } from 'pg'
import { lockOneTimeAccounts, useAccounts } from '../../accounts/one-time-store.ts'
import type { AccountTerms } from '../../accounts/terms.ts'
import { assert } from '../../core/errors.ts'
import { afterCommit, inTransaction } from '../../postgres/in-transaction.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import {
  decidedValues,
  type Finalization,
  finalizeOn,
  type NewTransaction,
  recordValues,
} from '../store.ts'
import type { StoredTransaction } from '../transaction.ts'
import { CREDITED, type Decided, newVariance, varianceOf } from './variance.ts'

/** A payment into a one-time account. */
interface OneTimePayment<Row> {
  readonly accountId: string
  readonly isSingleUse: boolean
  readonly transaction: StoredTransaction
  /** The row to write, with the event of the transaction as it was decided. */
  readonly toRow: (transaction: StoredTransaction) => Row
}

/** A decided payment, and whether it was written: not if its session is known or its account is closed. */
interface Written<Row> {
  readonly isWritten: boolean
  readonly transaction: StoredTransaction
  readonly row: Row
}

/**
 * Records payments into one-time accounts. Each is decided while its account is locked, and recorded in the same
 * transaction, so that the second of two concurrent payments into a single-use account sees the first.
 *
 * @param onWritten called after each commit with the payments of that transaction, in their order
 */
export function recordOneTime<Payment extends OneTimePayment<NewTransaction>>(
  runtime: Runtime,
  payments: readonly Payment[],
  nowMs: number,
  onWritten: (payment: Payment, written: Written<NewTransaction>) => void,
): Promise<void> {
  const write = { run: insertOneTime, keyOf: ({ id }: NewTransaction) => id }
  return writeInRounds(runtime, payments, nowMs, write, onWritten)
}

/** As `recordOneTime`, for the final reports of pending payments. */
export function finalizeOneTimePayments<Payment extends OneTimePayment<Finalization>>(
  runtime: Runtime,
  payments: readonly Payment[],
  nowMs: number,
  onWritten: (payment: Payment, written: Written<Finalization>) => void,
): Promise<void> {
  const write = { run: finalizeOn, keyOf: ({ eventId }: Finalization) => eventId }
  return writeInRounds(runtime, payments, nowMs, write, onWritten)
}

interface Write<Row> {
  readonly run: (
    client: Parameters<typeof insertOneTime>[0],
    rows: readonly (Row & Decided)[],
  ) => Promise<ReadonlySet<string>>
  readonly keyOf: (row: Row) => string
}

async function writeInRounds<Row extends object, Payment extends OneTimePayment<Row>>(
  { database: { recordingPool }, log, onCommit }: Runtime,
  payments: readonly Payment[],
  nowMs: number,
  { run, keyOf }: Write<Row>,
  onWritten: (payment: Payment, written: Written<Row>) => void,
): Promise<void> {
  const accountOf = ({ accountId: id, isSingleUse }: Payment) => ({ id, isSingleUse })
  for (const round of roundsOf(payments, accountOf)) {
    const { decided, written } = await inTransaction(recordingPool, async (client) => {
      const ids = round.map(({ accountId }) => accountId)
      const accounts = await lockOneTimeAccounts(client, ids)
      const decided = round.map((payment) => {
        const terms = accounts.get(payment.accountId)
        assert(terms, 'a one-time account stays a one-time account')
        const { transaction, decided } = decidePayment(terms, payment.transaction)
        return { payment, transaction, row: { ...payment.toRow(transaction), ...decided } }
      })
      const written = await run(
        client,
        decided.map(({ row }) => row),
      )
      const used = decided.filter(({ row }) => row.isUse && written.has(keyOf(row)))
      if (used.length > 0) {
        const usedIds = used.map(({ payment }) => payment.accountId)
        await useAccounts(client, usedIds, nowMs)
      }
      return { decided, written }
    })
    for (const { payment, transaction, row } of decided) {
      onWritten(payment, { isWritten: written.has(keyOf(row)), transaction, row })
    }
    if (written.size > 0) afterCommit(log, onCommit)
  }
}

/** Decides about a payment by the terms of its account, which the caller has locked until the commit. */
export function decidePayment(
  terms: AccountTerms,
  payment: StoredTransaction,
): { readonly transaction: StoredTransaction; readonly decided: Decided } {
  if (payment.status !== 'SUCCESS') {
    return { transaction: payment, decided: CREDITED }
  }
  const isUsed = terms.usedAtMs !== undefined
  const variance = newVariance(varianceOf(terms, isUsed, payment))
  return {
    transaction: { ...payment, variance },
    decided: {
      variance: variance.variance,
      hold: variance.hold ?? null,
      isUse: terms.singleUse && variance.hold === undefined,
    },
  }
}

/**
 * Splits payments into rounds with at most one payment into each single-use account, because its outcome decides about the
 * next payment.
 */
export function roundsOf<Payment>(
  payments: readonly Payment[],
  accountOf: (payment: Payment) => { readonly id: string; readonly isSingleUse: boolean },
): readonly (readonly Payment[])[] {
  const counts = new Map<string, number>()
  const rounds: Payment[][] = []
  for (const payment of payments) {
    const { id, isSingleUse } = accountOf(payment)
    const round = counts.get(id) ?? 0
    if (isSingleUse) counts.set(id, round + 1)
    rounds[round] ??= []
    rounds[round]?.push(payment)
  }
  return rounds
}

/** As `insertTransactions`, for payments into one-time accounts that the transaction has locked. */
async function insertOneTime(
  client: PoolClient,
  rows: readonly (NewTransaction & Decided)[],
): Promise<ReadonlySet<string>> {
  const { rows: recorded } = await client.query<{ id: string }>({
    name: 'transaction-record-one-time',
    // As in `insertTransactions`, but by the decision: a held payment changes no balance, and its event has a kind
    // of its own.
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
          $6::bigint[], $7::text[], $8::timestamptz[], $9::timestamptz[], $10::text[],
          $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bytea[],
          $17::boolean[], $18::text[], $19::text[], $20::text[], $21::text[], $22::boolean[]) with ordinality
          as i(id, business_id, account_id, bank, session_id, amount_minor, status, paid_at,
            created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
            narration, event_id, payload, live, recorded_by, traceparent, variance, hold, is_use, at)
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
      ), arrived as (
        select * from input where status = 'SUCCESS' and (id in (select id from recorded)) is true
      ), posted as (
        insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
          credit_account, amount_minor, created_at)
        select id, 'payment', business_id, live, 'clearing:' || bank,
          case when hold is null then 'pending' else 'held' end, amount_minor, created_at
        from arrived
      ), published as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
          pending_minor)
        select event_id, business_id, live,
          case when hold is null then 'PAYMENT_NOTIFICATION' else 'PAYMENT_ON_HOLD' end, created_at,
          payload, id, case when hold is null then amount_minor else 0 end
        from arrived
      ), varied as (
        insert into payment_variance (transaction_id, business_id, live, account_id, variance, hold, is_use)
        select id, business_id, live, account_id, variance, hold, is_use from arrived
      )
      select id from recorded`,
    values: [...recordValues(rows), ...decidedValues(rows)],
  })
  return new Set(recorded.map((row) => row.id))
}
