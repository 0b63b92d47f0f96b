import type { Pool, PoolClient } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { assert } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { byteaArray } from '../postgres/binary-arrays.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { completeReturn, reopenUnmatched } from '../transactions/unmatched-store.ts'
import { creditShares, givesBackPending, lockGivenBack, readGivenBack } from './give-back.ts'
import { encodePayoutEvent } from './message.ts'
import {
  type BalanceChange,
  balanceChangeOf,
  eventKindOf,
  type GivenBack,
  isFinal,
  type Payout,
  type PayoutPosting,
  type PayoutStatus,
  postingsOf,
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

/** Locks payouts until the commit. @returns the existing payouts by id */
export async function lockPayouts(
  client: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Payout>> {
  const { rows } = await client.query<PayoutRow>({
    name: 'payout-lock',
    text: `select ${PAYOUT_COLUMNS} from payout where id = any($1::text[]) order by id for update`,
    values: [ids],
  })
  return new Map(rows.map((row) => [row.id, toPayout(row)]))
}

/** The day in Lagos, YYYY-MM-DD. Lagos is an hour ahead of UTC all year. */
export function lagosDate(atMs: number): string {
  return new Date(atMs + 3_600_000).toISOString().slice(0, 10)
}

/** The balance of new payouts, and when they were requested. */
interface Requested extends Pick<Payout, 'businessId' | 'live' | 'createdAtMs'> {}

interface NewPayout extends Payout {
  /** Why the caller requests it; empty: not stated. */
  readonly reason: string
}

/**
 * Stores new payouts of one balance with their reservations, first steps, events and beneficiaries, and adds to the sum
 * of the day. The caller holds the lock of the balance and has checked it.
 *
 * @returns the payouts as they are stored, in the same order
 */
export async function insertPayouts(
  client: Queryable,
  { businessId, live, createdAtMs }: Requested,
  payouts: readonly NewPayout[],
): Promise<readonly Payout[]> {
  const column = <T>(of: (payout: NewPayout) => T) => payouts.map(of)
  const { rows } = await client.query<Pick<PayoutRow, 'id' | 'expiresAtMs' | 'nextAtMs'>>({
    name: 'payout-insert',
    text: `with input as (
        select $1::text as business_id, $2::boolean as live, $3::timestamptz as at, $4::date as day, i.*
        from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[],
          $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[],
          $20::text[], $21::text[], $22::text[], $23::float8[], $24::text[], $25::text[], $26::text[], $27::text[],
          $28::text[], $29::text[], $30::text[], $31::text[], $32::text[], $33::bytea[], $34::bigint[], $35::bigint[],
          $36::bigint[])
          as i (id, reference, purpose, status, source, amount_minor, fee_minor, duty_minor, bank_code, bank_name,
            account_number, account_name, narration, resolved_bank, enquiry_reference, bank_reference, requested_by,
            approval_reason, approval_ms, transaction_id, refunded_session_id, unmatched_payment_id, unmatched_bank,
            settlement_id, batch_id, step, event_id, kind, payload, pending_minor, available_minor, fees_minor)
      ), inserted as (
        insert into payout (id, business_id, live, reference, purpose, status, source, amount_minor, fee_minor,
          duty_minor, bank_code, bank_name, account_number, account_name, narration, resolved_bank,
          enquiry_reference, bank_reference, requested_by, approval_reason, created_at, expires_at, next_at,
          transaction_id, refunded_session_id, unmatched_payment_id, unmatched_bank, settlement_id, batch_id, generation)
        select id, nullif(business_id, ''), live, reference, purpose, status, source, amount_minor, fee_minor, duty_minor,
          bank_code, bank_name, account_number, account_name, narration, resolved_bank, enquiry_reference, bank_reference,
          requested_by, approval_reason, at, now() + approval_ms * interval '1 millisecond',
          now() + case when sender.generation = 0 then 0 else coalesce(approval_ms, 0) end * interval '1 millisecond',
          transaction_id, refunded_session_id, unmatched_payment_id, unmatched_bank, settlement_id, batch_id,
          sender.generation
        from input cross join lateral (
          -- One that was wanted before then may have been sent, also if it is only requested now: the banks are asked.
          select case when coalesce(b.created_at, s.completed_at, now()) < greatest(p.began_at, p.repeats_until) then 0
            else p.generation end as generation
          from payout_sender p left join payout_batch b on b.id = input.batch_id
            left join settlement s on s.id = input.settlement_id
        ) sender
        returning id, expires_at, next_at
      ), reserved as (
        insert into payout_posting (payout_id, kind, debit_account, credit_account, amount_minor, created_at)
        select id, 'reservation', source, 'reserved', amount_minor + fee_minor + duty_minor, at from input
      ), step as (
        insert into payout_step (payout_id, number, at, status, actor, text)
        select id, 1, at, status, requested_by, step from input
      ), day as (
        insert into payout_day (business_id, live, day, requested_minor)
        select business_id, live, day, sum(amount_minor) from input group by business_id, live, day
        on conflict (business_id, live, day) do update
          set requested_minor = payout_day.requested_minor + excluded.requested_minor
      ), beneficiary as (
        -- A beneficiary of a payout that awaits approval counts as used once the payout is approved.
        insert into payout_beneficiary (business_id, live, bank_code, account_number, account_name, first_used_at,
          last_used_at)
        select distinct on (bank_code, account_number) business_id, live, bank_code, account_number,
          account_name, at, at
        from input where approval_reason = ''
        on conflict (business_id, live, bank_code, account_number) do update
          set account_name = excluded.account_name, last_used_at = excluded.last_used_at
      ), published as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor,
          available_minor, fees_minor, nets_zero)
        -- nets_zero: the return of a held payment is shown in the account statement.
        select event_id, business_id, live, kind, at, payload, id, pending_minor, available_minor, fees_minor,
          (pending_minor, available_minor) = (0, 0)
        from input where event_id is not null
      )
      select id, round(date_part('epoch', expires_at) * 1000) as "expiresAtMs",
        round(date_part('epoch', next_at) * 1000) as "nextAtMs"
      from inserted`,
    values: [
      businessId,
      live,
      new Date(createdAtMs),
      lagosDate(createdAtMs),
      column(({ id }) => id),
      column(({ reference }) => reference),
      column(({ purpose }) => purpose),
      column(({ status }) => status),
      column(({ source }) => source),
      column(({ amountMinor }) => amountMinor),
      column(({ feeMinor }) => feeMinor),
      column(({ dutyMinor }) => dutyMinor),
      column(({ destination }) => destination.bankCode),
      column(({ destination }) => destination.bankName),
      column(({ destination }) => destination.accountNumber),
      column(({ destination }) => destination.accountName),
      column(({ narration }) => narration),
      column(({ resolvedBank }) => resolvedBank ?? null),
      column(({ enquiryReference }) => enquiryReference),
      column(({ bankReference }) => bankReference),
      column(({ requestedBy }) => requestedBy),
      column(({ approvalReason }) => approvalReason),
      column(({ expiresAtMs }) => (expiresAtMs === undefined ? null : expiresAtMs - createdAtMs)),
      column(({ transactionId }) => transactionId || null),
      column(({ refundedSessionId }) => refundedSessionId),
      column(({ unmatchedPaymentId }) => unmatchedPaymentId || null),
      column(({ unmatchedBank }) => unmatchedBank || null),
      column(({ settlementId }) => settlementId || null),
      column(({ batchId }) => batchId || null),
      column(firstStep),
      ...eventColumns(
        column((payout) => {
          const postings = postingsOf(payout, payout.status, { isNew: true })
          return eventOf(payout, postings, createdAtMs, true)
        }),
      ),
    ],
  })
  const stored = new Map(rows.map((row) => [row.id, row]))
  return payouts.map(({ reason: _, ...payout }) => {
    const { expiresAtMs, nextAtMs } = stored.get(payout.id) ?? {}
    return { ...payout, expiresAtMs: expiresAtMs ?? undefined, nextAtMs: nextAtMs ?? undefined }
  })
}

/** What the history of a payout begins with. */
function firstStep({ reason, approvalReason }: NewPayout): string {
  const requested = reason === '' ? 'requested' : `requested: ${reason}`
  return approvalReason === '' ? requested : `${requested}; needs an approval: ${approvalReason}`
}

/** An event as the outbox stores it, and how it changes the balances. */
interface OutboxEvent extends BalanceChange {
  readonly id: string
  readonly kind: string
  readonly payload: Uint8Array
}

/** @returns undefined if reaching the status has no event */
function eventOf(
  payout: Payout,
  postings: readonly PayoutPosting[],
  nowMs: number,
  isNew = false,
): OutboxEvent | undefined {
  const kind = eventKindOf(payout.purpose, payout.status, isNew)
  // Events always belong to a business.
  if (kind === undefined || payout.businessId === '') return undefined
  const id = newId('evt', nowMs)
  const payload = encodePayoutEvent(payout, { kind, eventId: id, nowMs })
  return { id, kind, payload, ...balanceChangeOf(postings) }
}

/** The columns id, kind, payload and balance changes of each event; null where there is no event. */
function eventColumns(events: readonly (OutboxEvent | undefined)[]): readonly unknown[] {
  const column = <T>(of: (event: OutboxEvent) => T) => events.map((event) => event && of(event))
  return [
    column(({ id }) => id),
    column(({ kind }) => kind),
    byteaArray(events.map((event) => event?.payload ?? null)),
    column(({ pendingMinor }) => pendingMinor),
    column(({ availableMinor }) => availableMinor),
    column(({ feesMinor }) => feesMinor),
  ]
}

/** A change of a payout. Absent fields stay as they are. */
export interface PayoutChange {
  readonly status: PayoutStatus
  /** The text of the step in the history; absent: no step is added. */
  readonly step?: string
  /** Who caused the change; absent: the service itself. */
  readonly actor?: string
  /** Milliseconds until the payout is due again; absent: never. */
  readonly nextInMs?: number
  readonly bank?: BankCode
  readonly routing?: string
  /** True: the payout is about to be sent. False: it was certainly not sent, so any bank may send it. */
  readonly submitted?: boolean
  readonly sessionId?: string
  readonly failureReason?: string
  readonly detail?: string
  /** The reference of a new name enquiry at the bank that sends the payout. */
  readonly enquiryReference?: string
  readonly decidedBy?: string
  readonly decisionNote?: string
  readonly attempts?: number
  /** The generation of the sender in which no other bank knew the payout; 0: one of them may. */
  readonly generation?: number
  /** Claims the payout: an instance that claimed it before can no longer change it. */
  readonly claimed?: true
}

/** A payout as it was read, and what changes. */
export interface Changing {
  readonly before: Payout
  readonly change: PayoutChange
  /** Where the money goes if it comes back; absent: to its source. */
  readonly givenBack?: GivenBack
}

/** Runs in the transaction that changes a payout, after the change. */
type OnChanged = (client: PoolClient, after: Payout) => Promise<void>

/**
 * Changes a payout with its postings and history, and publishes the event if there is one. Changes nothing if the status
 * has changed since the payout was read, or another instance has claimed it.
 *
 * @param onChanged not called for payouts from `available`
 * @returns undefined if nothing changed
 */
export async function changePayout(
  pool: Pool,
  before: Payout,
  change: PayoutChange,
  nowMs: number,
  onChanged?: OnChanged,
): Promise<Payout | undefined> {
  // One statement is enough. Only refunds of pending, held or unmatched payments need a transaction.
  if (before.source === 'available') {
    const [after] = await changePayouts(pool, [{ before, change }], nowMs)
    return after
  }
  return inTransaction(pool, async (client) => {
    await lockPayouts(client, [before.id])
    const [after] = await changeIn(client, [{ before, change }], nowMs)
    if (after !== undefined) await onChanged?.(client, after)
    return after
  })
}

/** Like `changePayouts`, but in a transaction of the caller, who has locked the payouts. */
async function changeIn(
  client: PoolClient,
  changes: readonly Changing[],
  nowMs: number,
): Promise<readonly (Payout | undefined)[]> {
  const backs = changes.filter(({ before, change }) => givesBackPending(before, change.status))
  const others = changes.filter((each) => !backs.includes(each))
  await lockGivenBack(
    client,
    backs.map(({ before }) => before),
  )
  const changedOthers = await changePayouts(client, others, nowMs)
  const afters = new Map(others.map((each, at) => [each, changedOthers[at]]))
  // One after the other: what one refund of a payment bears depends on what came back before.
  for (const each of backs) afters.set(each, await giveBack(client, each, nowMs))
  const changed = changes.map((each) => afters.get(each))
  for (const [at, after] of changed.entries()) {
    if (after?.source !== 'unmatched' || after.status === changes[at]?.before.status) continue
    if (after.status === 'PAID') await completeReturn(client, after.id, nowMs)
    else if (isFinal(after.status)) await reopenUnmatched(client, after.id)
  }
  return changed
}

/** Changes payouts that the transaction of the caller has locked, so that they cannot have changed since they were read. */
export async function changeLocked(
  client: PoolClient,
  changes: readonly Changing[],
  nowMs: number,
): Promise<readonly Payout[]> {
  const changed = await changeIn(client, changes, nowMs)
  return changed.map((after) => {
    assert(after, 'a locked payout is as it was read')
    return after
  })
}

/** Ends a refund from pending whose money comes back. The caller holds the lock of its balance. */
async function giveBack(
  client: PoolClient,
  { before, change }: Changing,
  nowMs: number,
): Promise<Payout | undefined> {
  const givenBack = await readGivenBack(client, before)
  const [after] = await changePayouts(client, [{ before, change, givenBack }], nowMs)
  if (after !== undefined) await creditShares(client, after, givenBack, nowMs)
  return after
}

/**
 * Changes payouts in one statement. A payout is changed only if its status is still as it was read and no other instance
 * has claimed it since. If the database rejects one change, none is made.
 *
 * @returns the changed payouts in the order of the changes; undefined: the payout was not changed
 */
export async function changePayouts(
  on: Queryable,
  changes: readonly Changing[],
  nowMs: number,
): Promise<readonly (Payout | undefined)[]> {
  if (changes.length === 0) return []
  // Sorted by id, the order in which all transactions lock payouts, to avoid deadlocks.
  const rows = changes
    .map((changing) => changeRow(changing, nowMs))
    .sort((a, b) => (a.after.id < b.after.id ? -1 : 1))
  const column = <T>(of: (row: ChangeRow) => T) => rows.map(of)
  const postings = rows.flatMap(({ after, postings }) =>
    postings.map((posting) => ({ ...posting, payoutId: after.id })),
  )
  const { rows: changed } = await on.query<Pick<PayoutRow, 'id' | TimeOfDatabase>>({
    name: 'payout-change',
    text: `with input as (
        select $1::timestamptz as at, i.* from unnest($2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::text[],
          $9::text[], $10::text[], $11::text[], $12::text[], $13::int[], $14::int[], $15::boolean[], $16::boolean[],
          $17::float8[], $18::int[], $19::text[], $20::text[], $21::text[], $22::text[], $23::date[], $24::boolean[],
          $25::text[], $26::text[], $27::bytea[], $28::bigint[], $29::bigint[], $30::bigint[])
          as i (id, was, claim, status, bank, routing, session_id, failure_reason, detail, decided_by, decision_note,
            attempts, claims, is_submitted, completes, next_in_ms, generation, resolved_bank, enquiry_reference, actor,
            step, released_day, refunds_pending, event_id, kind, payload, pending_minor, available_minor, fees_minor)
      ), changed as (
        update payout p set status = i.status, bank = i.bank, routing = i.routing, session_id = i.session_id,
          failure_reason = i.failure_reason, detail = i.detail, decided_by = i.decided_by,
          decision_note = i.decision_note, attempts = i.attempts, claims = i.claims,
          expires_at = case when i.status = 'PENDING_APPROVAL' then p.expires_at end,
          submitted_at = case when i.is_submitted then now() when i.is_submitted is null then p.submitted_at end,
          completed_at = case when i.completes then now() else p.completed_at end,
          next_at = coalesce(now() + i.next_in_ms * interval '1 millisecond',
            case when i.status = 'PENDING_APPROVAL' then p.expires_at end),
          generation = i.generation, resolved_bank = i.resolved_bank, enquiry_reference = i.enquiry_reference
        from input i
        -- any(array(…)) makes the planner use the primary key.
        where p.id = any(array(select id from input)) and p.id = i.id and p.status = i.was and p.claims = i.claim
        returning p.id, coalesce(p.business_id, '') as business_id, p.live, p.amount_minor, p.transaction_id, p.bank_code,
          p.account_number, p.account_name, p.expires_at, p.next_at, p.submitted_at, p.completed_at, i.was, i.at, i.status as reached, i.actor, i.step, i.released_day,
          i.refunds_pending, i.event_id, i.kind, i.payload, i.pending_minor, i.available_minor, i.fees_minor
      ), posted as (
        insert into payout_posting (payout_id, kind, debit_account, credit_account, amount_minor, created_at)
        select changed.id, p.kind, p.debit, p.credit, p.minor, changed.at
        from unnest($31::text[], $32::text[], $33::text[], $34::text[], $35::bigint[])
          as p (payout_id, kind, debit, credit, minor) join changed on changed.id = p.payout_id
      ), step as (
        insert into payout_step (payout_id, number, at, status, actor, text)
        select id, (select count(*) from payout_step s where s.payout_id = changed.id) + 1, at, reached, actor, step
        from changed where step <> ''
      ), day as (
        update payout_day d set requested_minor = d.requested_minor - released.minor
        from (
          select business_id, live, released_day, sum(amount_minor) as minor from changed
          where released_day is not null group by 1, 2, 3
        ) released
        where d.business_id = released.business_id and d.live = released.live and d.day = released.released_day
      ), refund as (
        -- A payment whose refund was sent back can be refunded again. A returned payment is reversed, so its refund is removed.
        update payout_refund r set refunded_minor = r.refunded_minor - given.minor,
          pending_minor = r.pending_minor - given.pending_minor
        from (
          select transaction_id, sum(amount_minor) as minor,
            coalesce(sum(amount_minor) filter (where refunds_pending), 0) as pending_minor
          from changed where refunds_pending is not null group by transaction_id
        ) given
        where r.transaction_id = given.transaction_id
      ), used as (
        -- A beneficiary of a payout that awaited approval counts as used once the payout is approved.
        insert into payout_beneficiary (business_id, live, bank_code, account_number, account_name, first_used_at,
          last_used_at)
        select distinct on (business_id, live, bank_code, account_number) business_id, live, bank_code, account_number,
          account_name, at, at
        from changed where was = 'PENDING_APPROVAL' and reached = 'APPROVED'
        order by business_id, live, bank_code, account_number, id desc
        on conflict (business_id, live, bank_code, account_number) do update
          set account_name = excluded.account_name, last_used_at = excluded.last_used_at
      ), published as (
        -- nets_zero: the event is shown in the account statement even if the payout has no fee.
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor,
          available_minor, fees_minor, nets_zero)
        select event_id, business_id, live, kind, at, payload, id, pending_minor, available_minor, fees_minor,
          (pending_minor, available_minor, fees_minor) = (0, 0, 0)
        from changed where event_id is not null
      )
      select id, round(date_part('epoch', expires_at) * 1000) as "expiresAtMs",
        round(date_part('epoch', next_at) * 1000) as "nextAtMs",
        round(date_part('epoch', submitted_at) * 1000) as "submittedAtMs",
        round(date_part('epoch', completed_at) * 1000) as "completedAtMs"
      from changed`,
    values: [
      new Date(nowMs),
      column(({ after }) => after.id),
      column(({ before }) => before.status),
      column(({ before }) => before.claims),
      column(({ after }) => after.status),
      column(({ after }) => after.bank),
      column(({ after }) => after.routing),
      column(({ after }) => after.sessionId),
      column(({ after }) => after.failureReason),
      column(({ after }) => after.detail),
      column(({ after }) => after.decidedBy),
      column(({ after }) => after.decisionNote),
      column(({ after }) => after.attempts),
      column(({ after }) => after.claims),
      column(({ change }) => change.submitted),
      column(({ completes }) => completes),
      column(({ change }) => change.nextInMs),
      column(({ after }) => after.generation),
      column(({ after }) => after.resolvedBank),
      column(({ after }) => after.enquiryReference),
      column(({ change }) => change.actor ?? ''),
      column(({ change }) => change.step ?? ''),
      column(({ releasedDay }) => releasedDay),
      column(({ refundsPending }) => refundsPending),
      ...eventColumns(column(({ event }) => event)),
      postings.map(({ payoutId }) => payoutId),
      postings.map(({ kind }) => kind),
      postings.map(({ debit }) => debit),
      postings.map(({ credit }) => credit),
      postings.map(({ amountMinor }) => amountMinor),
    ],
  })
  const stored = new Map(changed.map((row) => [row.id, row]))
  const afters = new Map(rows.map(({ after }) => [after.id, after]))
  return changes.map(({ before: { id } }) => {
    const [row, after] = [stored.get(id), afters.get(id)]
    if (row === undefined || after === undefined) return undefined
    return {
      ...after,
      expiresAtMs: row.expiresAtMs ?? undefined,
      nextAtMs: row.nextAtMs ?? undefined,
      submittedAtMs: row.submittedAtMs ?? undefined,
      completedAtMs: row.completedAtMs ?? undefined,
    }
  })
}

/** The times that the database sets by its own clock. */
type TimeOfDatabase = 'expiresAtMs' | 'nextAtMs' | 'submittedAtMs' | 'completedAtMs'

/** A change as a row of the statement. */
interface ChangeRow extends Omit<Changing, 'givenBack'> {
  readonly after: Payout
  readonly postings: readonly PayoutPosting[]
  readonly event: OutboxEvent | undefined
  readonly completes: boolean
  /** The day whose sum no longer includes the payout; undefined: the sum still includes it. */
  readonly releasedDay: string | undefined
  /** Whether the refunded money is pending again; undefined: the refund stands. */
  readonly refundsPending: boolean | undefined
}

function changeRow({ before, change, givenBack }: Changing, nowMs: number): ChangeRow {
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
  const postings = moved ? postingsOf(before, status, { givenBack }) : []
  const release = postings.find(({ kind }) => kind === 'release')
  const back = release ?? postings.find(({ kind }) => kind === 'return')
  const endsRefund = moved && status === (before.source === 'held' ? 'PAID' : 'RETURNED')
  return {
    before,
    change,
    after,
    postings,
    completes,
    event: moved ? eventOf(after, postings, nowMs) : undefined,
    releasedDay: release && lagosDate(before.createdAtMs),
    refundsPending: release || endsRefund ? back?.credit === 'pending' : undefined,
  }
}

function submittedAt(
  before: Payout,
  { submitted }: PayoutChange,
  nowMs: number,
): number | undefined {
  if (submitted === undefined) return before.submittedAtMs
  return submitted ? nowMs : undefined
}
