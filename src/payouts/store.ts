import type { Pool, PoolClient } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { newId } from '../core/ids.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { completeReturn, reopenUnmatched } from '../transactions/unmatched-store.ts'
import { encodePayoutEvent } from './message.ts'
import {
  balanceChangeOf,
  eventKindOf,
  isFinal,
  type Payout,
  type PayoutPosting,
  type PayoutStatus,
  postingsOf,
  type Source,
} from './payout.ts'

/** The columns of a `PayoutRow`: statements that return payouts select them, and `toPayout` reads them. */
export const PAYOUT_COLUMNS = `id, coalesce(business_id, '') as "businessId", live, reference, purpose, status, source,
  amount_minor as "amountMinor", fee_minor as "feeMinor", duty_minor as "dutyMinor", bank_code as "bankCode",
  bank_name as "bankName", account_number as "accountNumber", account_name as "accountName", narration,
  resolved_bank as "resolvedBank", enquiry_reference as "enquiryReference", bank, bank_reference as "bankReference",
  routing, session_id as "sessionId", failure_reason as "failureReason", detail, requested_by as "requestedBy",
  approval_reason as "approvalReason", decided_by as "decidedBy", decision_note as "decisionNote",
  round(date_part('epoch', created_at) * 1000) as "createdAtMs",
  round(date_part('epoch', expires_at) * 1000) as "expiresAtMs",
  round(date_part('epoch', next_at) * 1000) as "nextAtMs",
  round(date_part('epoch', submitted_at) * 1000) as "submittedAtMs",
  round(date_part('epoch', completed_at) * 1000) as "completedAtMs", claims, attempts,
  coalesce(transaction_id, '') as "transactionId", refunded_session_id as "refundedSessionId",
  coalesce(unmatched_payment_id, '') as "unmatchedPaymentId", coalesce(unmatched_bank, '') as "unmatchedBank",
  coalesce(settlement_id, '') as "settlementId", coalesce(batch_id, '') as "batchId", generation`

type Nullable =
  | 'resolvedBank'
  | 'bank'
  | 'expiresAtMs'
  | 'nextAtMs'
  | 'submittedAtMs'
  | 'completedAtMs'

type Amount = 'amountMinor' | 'feeMinor' | 'dutyMinor'

type Flat = Omit<Payout, 'destination'> & Payout['destination']

export type PayoutRow = {
  readonly [Name in keyof Flat]: Name extends Amount
    ? string
    : Name extends Nullable
      ? Exclude<Flat[Name], undefined> | null
      : Flat[Name]
}

export function toPayout({
  bankCode,
  bankName,
  accountNumber,
  accountName,
  ...row
}: PayoutRow): Payout {
  return {
    ...row,
    destination: { bankCode, bankName, accountNumber, accountName },
    amountMinor: BigInt(row.amountMinor),
    feeMinor: BigInt(row.feeMinor),
    dutyMinor: BigInt(row.dutyMinor),
    resolvedBank: row.resolvedBank ?? undefined,
    bank: row.bank ?? undefined,
    expiresAtMs: row.expiresAtMs ?? undefined,
    nextAtMs: row.nextAtMs ?? undefined,
    submittedAtMs: row.submittedAtMs ?? undefined,
    completedAtMs: row.completedAtMs ?? undefined,
  }
}

export async function findPayout(on: Queryable, id: string): Promise<Payout | undefined> {
  const { rows } = await on.query<PayoutRow>({
    name: 'payout-find',
    text: `select ${PAYOUT_COLUMNS} from payout where id = $1`,
    values: [id],
  })
  return rows[0] && toPayout(rows[0])
}

export async function findByReference(
  on: Queryable,
  key: { readonly businessId: string; readonly live: boolean; readonly reference: string },
): Promise<Payout | undefined> {
  const { rows } = await on.query<PayoutRow>({
    name: 'payout-find-by-reference',
    text: `select ${PAYOUT_COLUMNS} from payout where business_id = $1 and live = $2 and reference = $3`,
    values: [key.businessId, key.live, key.reference],
  })
  return rows[0] && toPayout(rows[0])
}

/** Locks a payout until the commit. */
export async function lockPayout(client: Queryable, id: string): Promise<Payout | undefined> {
  const { rows } = await client.query<PayoutRow>(
    `select ${PAYOUT_COLUMNS} from payout where id = $1 for update`,
    [id],
  )
  return rows[0] && toPayout(rows[0])
}

/** The day in Lagos, YYYY-MM-DD. Lagos is an hour ahead of UTC all year. */
export function lagosDate(atMs: number): string {
  return new Date(atMs + 3_600_000).toISOString().slice(0, 10)
}

/** A new payout, as `insertPayout` stores it. */
export type NewPayout = Omit<
  Payout,
  'nextAtMs' | 'bank' | 'submittedAtMs' | 'completedAtMs' | 'generation'
>

/**
 * Stores a new payout with its reservation, its first step, its event, its beneficiary and the sum of its day. The
 * caller holds the lock of the balance and has checked it.
 */
export async function insertPayout(client: Queryable, payout: NewPayout): Promise<Payout> {
  const { id, businessId, live, createdAtMs, destination, approvalReason } = payout
  const postings = postingsOf(payout, payout.status, { isNew: true })
  const stored: Payout = {
    ...payout,
    nextAtMs: payout.expiresAtMs ?? createdAtMs,
    bank: undefined,
    submittedAtMs: undefined,
    completedAtMs: undefined,
    generation: 0,
  }
  await client.query({
    name: 'payout-insert',
    text: `with inserted as (
        insert into payout (id, business_id, live, reference, purpose, status, source, amount_minor, fee_minor,
          duty_minor, bank_code, bank_name, account_number, account_name, narration, resolved_bank,
          enquiry_reference, bank_reference, requested_by, approval_reason, created_at, expires_at, next_at,
          transaction_id, refunded_session_id, settlement_id, batch_id, generation, unmatched_payment_id, unmatched_bank)
        values ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
          now() + $22 * interval '1 millisecond', now() + coalesce($22, 0) * interval '1 millisecond',
          nullif($23, ''), $24, nullif($25, ''), nullif($26, ''),
          (select case when now() < repeats_until then 0 else generation end from payout_sender),
          nullif($35, ''), nullif($36, ''))
      ), reserved as (
        insert into payout_posting (payout_id, kind, debit_account, credit_account, amount_minor, created_at)
        values ($1, 'reservation', $7, 'reserved', $8 + $9 + $10, $21)
      ), step as (
        insert into payout_step (payout_id, number, at, status, actor, text) values ($1, 1, $21, $6, $19, $27)
      ), day as (
        insert into payout_day (business_id, live, day, requested_minor) values ($2, $3, $28, $8)
        on conflict (business_id, live, day) do update
          set requested_minor = payout_day.requested_minor + excluded.requested_minor
      ), beneficiary as (
        -- One that awaits an approval is used once it is approved.
        insert into payout_beneficiary (business_id, live, bank_code, account_number, account_name, first_used_at,
          last_used_at)
        select $2, $3, $11, $13, $14, $21::timestamptz, $21 where $20 = ''
        on conflict (business_id, live, bank_code, account_number) do update
          set account_name = excluded.account_name, last_used_at = excluded.last_used_at
      )
      insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor,
        available_minor, fees_minor, nets_zero)
      -- nets_zero: the return of a held payment belongs to the statement.
      select $29, $2, $3, $30, $21, $31, $1, $32::bigint, $33::bigint, $34::bigint, ($32::bigint, $33::bigint) = (0, 0)
      where $29::text is not null`,
    values: [
      id,
      businessId,
      live,
      payout.reference,
      payout.purpose,
      payout.status,
      payout.source,
      payout.amountMinor,
      payout.feeMinor,
      payout.dutyMinor,
      destination.bankCode,
      destination.bankName,
      destination.accountNumber,
      destination.accountName,
      payout.narration,
      payout.resolvedBank ?? null,
      payout.enquiryReference,
      payout.bankReference,
      payout.requestedBy,
      approvalReason,
      new Date(createdAtMs),
      payout.expiresAtMs === undefined ? null : payout.expiresAtMs - createdAtMs,
      payout.transactionId,
      payout.refundedSessionId,
      payout.settlementId,
      payout.batchId,
      approvalReason === '' ? 'requested' : `requested; needs an approval: ${approvalReason}`,
      lagosDate(createdAtMs),
      ...eventOf(stored, postings, createdAtMs, true),
      payout.unmatchedPaymentId,
      payout.unmatchedBank,
    ],
  })
  return stored
}

/** Notes that a business uses the beneficiaries of payouts which were just approved. */
export async function useBeneficiaries(
  client: Queryable,
  payoutIds: readonly string[],
  nowMs: number,
): Promise<void> {
  await client.query(
    `insert into payout_beneficiary (business_id, live, bank_code, account_number, account_name, first_used_at,
        last_used_at)
      select distinct on (business_id, live, bank_code, account_number) business_id, live, bank_code, account_number,
        account_name, $2::timestamptz, $2
      from payout where id = any($1) order by business_id, live, bank_code, account_number, id desc
      on conflict (business_id, live, bank_code, account_number) do update
        set account_name = excluded.account_name, last_used_at = excluded.last_used_at`,
    [payoutIds, new Date(nowMs)],
  )
}

const NO_EVENT = [null, null, null, 0n, 0n, 0n]

/** @returns the id, kind and payload of an event, and how it changes the balances; nulls: there is no event */
function eventOf(
  payout: Payout,
  postings: readonly PayoutPosting[],
  nowMs: number,
  isNew = false,
): readonly unknown[] {
  const kind = eventKindOf(payout.purpose, payout.status, isNew)
  // An event has a business.
  if (kind === undefined || payout.businessId === '') return NO_EVENT
  const eventId = newId('evt', nowMs)
  const { pendingMinor, availableMinor, feesMinor } = balanceChangeOf(postings)
  const payload = encodePayoutEvent(payout, { kind, eventId, nowMs })
  return [eventId, kind, payload, pendingMinor, availableMinor, feesMinor]
}

/** A change of a payout. What is absent stays as it is. */
export interface PayoutChange {
  readonly status: PayoutStatus
  /** What happened, for its history; absent: nothing that is worth a step. */
  readonly step?: string
  /** Who caused it; absent: the service itself. */
  readonly actor?: string
  /** Milliseconds until it is taken up again; absent: never. */
  readonly nextInMs?: number
  readonly bank?: BankCode
  readonly routing?: string
  /** It is about to be sent; false: certainly nothing was, so that any bank may. */
  readonly submitted?: boolean
  readonly sessionId?: string
  readonly failureReason?: string
  readonly detail?: string
  /** What another name enquiry returned, at the bank that sends it. */
  readonly enquiryReference?: string
  readonly decidedBy?: string
  readonly decisionNote?: string
  readonly attempts?: number
  /** No bank knew it in this generation of the sender. */
  readonly generation?: number
  /** An instance that took it up before changes nothing any more. */
  readonly claimed?: true
}

/** Runs in the transaction that changes a payout, after the change. */
type OnChanged = (client: PoolClient, after: Payout) => Promise<void>

/**
 * Changes a payout: its row, its postings, its history, and its event if it has one. It changes nothing if the payout is
 * no longer as it was read, or another instance took it up since.
 *
 * @param onChanged needed unless it is paid from `available`
 * @returns undefined if nothing changed
 */
export async function changePayout(
  pool: Pool,
  before: Payout,
  change: PayoutChange,
  nowMs: number,
  onChanged?: OnChanged,
): Promise<Payout | undefined> {
  // One statement changes it all. Only refunds of payments that are pending, held or unmatched need more.
  if (before.source === 'available') return changeClaimed(pool, before, change, nowMs)
  return inTransaction(pool, async (client) => {
    await lockPayout(client, before.id)
    const after = await changeIn(client, before, change, nowMs)
    if (after !== undefined) await onChanged?.(client, after)
    return after
  })
}

/** As `changePayout`, in a transaction of the caller, who has locked the payout. */
export async function changeIn(
  client: PoolClient,
  before: Payout,
  change: PayoutChange,
  nowMs: number,
): Promise<Payout | undefined> {
  const isReleased = isFinal(change.status) && change.status !== before.status
  const releasedTo = isReleased ? await lockSource(client, before) : before.source
  const after = await changeClaimed(client, before, change, nowMs, releasedTo)
  if (before.source === 'unmatched' && after !== undefined && isReleased) {
    if (after.status === 'PAID') await completeReturn(client, after.id, nowMs)
    else await reopenUnmatched(client, after.id)
  }
  return after
}

/**
 * Where the money of a payout goes back to. Until the commit no settlement can settle the payment that it refunds, and one
 * that did so has committed before, and is seen.
 */
async function lockSource(
  client: PoolClient,
  { source, businessId, live, transactionId }: Payout,
): Promise<Source> {
  if (source !== 'pending') return source
  await client.query('select lock_settled($1, $2, true)', [businessId, live])
  const { rows } = await client.query<{ is_settled: boolean }>(
    `select exists (select from ledger_posting
        where transaction_id = $1 and kind = 'settlement') as is_settled`,
    [transactionId],
  )
  return rows[0]?.is_settled ? 'available' : source
}

async function changeClaimed(
  on: Queryable,
  before: Payout,
  change: PayoutChange,
  nowMs: number,
  releasedTo: Source = before.source,
): Promise<Payout | undefined> {
  const { status, nextInMs } = change
  const moved = status !== before.status
  const completes = moved && isFinal(status)
  const after: Payout = {
    ...before,
    status,
    bank: change.submitted === false ? undefined : (change.bank ?? before.bank),
    routing: change.routing ?? before.routing,
    sessionId: change.sessionId ?? before.sessionId,
    failureReason: change.failureReason ?? before.failureReason,
    detail: change.detail ?? before.detail,
    enquiryReference: change.enquiryReference ?? before.enquiryReference,
    resolvedBank: change.enquiryReference === undefined ? before.resolvedBank : before.bank,
    decidedBy: change.decidedBy ?? before.decidedBy,
    decisionNote: change.decisionNote ?? before.decisionNote,
    attempts: change.attempts ?? before.attempts,
    claims: before.claims + (change.claimed ? 1 : 0),
    generation: change.generation ?? before.generation,
    expiresAtMs: status === 'PENDING_APPROVAL' ? before.expiresAtMs : undefined,
    submittedAtMs: submittedAt(before, change, nowMs),
    completedAtMs: completes ? nowMs : before.completedAtMs,
    nextAtMs: nextInMs === undefined ? undefined : nowMs + nextInMs,
  }
  const postings = moved ? postingsOf(before, status, { releasedTo }) : []
  const isReleased = postings.some(({ kind }) => kind === 'release')
  const { rowCount } = await on.query({
    name: 'payout-change',
    text: `with changed as (
        update payout set status = $4, bank = $5, routing = $6, session_id = $7, failure_reason = $8, detail = $9,
          decided_by = $10, decision_note = $11, attempts = $12, claims = $13,
          expires_at = case when $4 = 'PENDING_APPROVAL' then expires_at end,
          submitted_at = case when $14 then now() when $14 is null then submitted_at end,
          completed_at = case when $15 then now() else completed_at end,
          next_at = coalesce(now() + $16::float8 * interval '1 millisecond',
            case when $4 = 'PENDING_APPROVAL' then expires_at end),
          generation = $36, resolved_bank = $32, enquiry_reference = $33
        where id = $1 and status = $2 and claims = $3
        returning id, coalesce(business_id, '') as business_id, live, amount_minor, transaction_id
      ), posted as (
        insert into payout_posting (payout_id, kind, debit_account, credit_account, amount_minor, created_at)
        select changed.id, p.kind, p.debit, p.credit, p.minor, $17
        from changed cross join unnest($18::text[], $19::text[], $20::text[], $21::bigint[])
          as p (kind, debit, credit, minor)
      ), step as (
        insert into payout_step (payout_id, number, at, status, actor, text)
        select id, (select count(*) from payout_step where payout_id = $1) + 1, $17, $4, $22, $23
        from changed where $23 <> ''
      ), day as (
        update payout_day set requested_minor = requested_minor - changed.amount_minor from changed
        where $24 and payout_day.business_id = changed.business_id and payout_day.live = changed.live
          and payout_day.day = $25
      ), refund as (
        -- A payment whose refund was sent back may be refunded again; a returned one is reversed, and has no refund.
        update payout_refund set refunded_minor = refunded_minor - changed.amount_minor,
          pending_minor = pending_minor - case when $34 then changed.amount_minor else 0 end
        from changed
        where $35 and payout_refund.transaction_id = changed.transaction_id
      ), published as (
        -- nets_zero: it belongs to the statement also if it has no fee.
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor,
          available_minor, fees_minor, nets_zero)
        select $26, business_id, live, $27, $17, $28, id, $29::bigint, $30::bigint, $31::bigint,
          ($29::bigint, $30::bigint, $31::bigint) = (0, 0, 0)
        from changed where $26::text is not null
      )
      select from changed`,
    values: [
      before.id,
      before.status,
      before.claims,
      status,
      after.bank ?? null,
      after.routing,
      after.sessionId,
      after.failureReason,
      after.detail,
      after.decidedBy,
      after.decisionNote,
      after.attempts,
      after.claims,
      change.submitted ?? null,
      completes,
      nextInMs ?? null,
      new Date(nowMs),
      postings.map(({ kind }) => kind),
      postings.map(({ debit }) => debit),
      postings.map(({ credit }) => credit),
      postings.map(({ amountMinor }) => amountMinor),
      change.actor ?? '',
      change.step ?? '',
      isReleased,
      lagosDate(before.createdAtMs),
      ...(moved ? eventOf(after, postings, nowMs) : NO_EVENT),
      after.resolvedBank ?? null,
      after.enquiryReference,
      postings.some(({ kind, credit }) => kind === 'release' && credit === 'pending'),
      isReleased || (moved && status === (before.source === 'held' ? 'PAID' : 'RETURNED')),
      after.generation,
    ],
  })
  return rowCount === 0 ? undefined : after
}

function submittedAt(
  before: Payout,
  { submitted }: PayoutChange,
  nowMs: number,
): number | undefined {
  if (submitted === undefined) return before.submittedAtMs
  return submitted ? nowMs : undefined
}
