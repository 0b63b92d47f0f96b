import type { Pool, PoolClient } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { assert } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { byteaArray } from '../postgres/binary-arrays.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { encodePayoutEvent } from './message.ts'
import {
  type BalanceChange,
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
export const PAYOUT_COLUMNS = `id, business_id as "businessId", live, reference, purpose, status, source,
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
async function lockPayout(client: Queryable, id: string): Promise<Payout | undefined> {
  return (await lockPayouts(client, [id])).get(id)
}

/** Locks payouts until the commit. @returns those that exist, by id */
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

/**
 * Stores new payouts of one balance with their reservations, first steps, events and beneficiaries, and adds to the sum
 * of the day. The caller holds the lock of the balance and has checked it.
 */
export async function insertPayouts(
  client: Queryable,
  { businessId, live, createdAtMs }: Requested,
  payouts: readonly Payout[],
): Promise<void> {
  const column = <T>(of: (payout: Payout) => T) => payouts.map(of)
  await client.query({
    name: 'payout-insert',
    text: `with input as (
        select $1::text as business_id, $2::boolean as live, $3::timestamptz as at, $4::date as day, i.*
        from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[],
          $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[],
          $20::text[], $21::text[], $22::text[], $23::float8[], $24::text[], $25::text[], $26::text[], $27::text[],
          $28::text[], $29::text[], $30::text[], $31::bytea[], $32::bigint[], $33::bigint[], $34::bigint[])
          as i (id, reference, purpose, status, source, amount_minor, fee_minor, duty_minor, bank_code, bank_name,
            account_number, account_name, narration, resolved_bank, enquiry_reference, bank_reference, requested_by,
            approval_reason, approval_ms, transaction_id, refunded_session_id, settlement_id, batch_id, step, event_id,
            kind, payload, pending_minor, available_minor, fees_minor)
      ), inserted as (
        insert into payout (id, business_id, live, reference, purpose, status, source, amount_minor, fee_minor,
          duty_minor, bank_code, bank_name, account_number, account_name, narration, resolved_bank,
          enquiry_reference, bank_reference, requested_by, approval_reason, created_at, expires_at, next_at,
          transaction_id, refunded_session_id, settlement_id, batch_id, generation)
        select id, business_id, live, reference, purpose, status, source, amount_minor, fee_minor, duty_minor, bank_code,
          bank_name, account_number, account_name, narration, resolved_bank, enquiry_reference, bank_reference,
          requested_by, approval_reason, at, now() + approval_ms * interval '1 millisecond',
          now() + coalesce(approval_ms, 0) * interval '1 millisecond', transaction_id, refunded_session_id,
          settlement_id, batch_id,
          (select case when now() < repeats_until then 0 else generation end from payout_sender)
        from input
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
        insert into payout_beneficiary (business_id, live, bank_code, account_number, account_name, first_used_at,
          last_used_at)
        select distinct on (bank_code, account_number) business_id, live, bank_code, account_number,
          account_name, at, at
        from input
        on conflict (business_id, live, bank_code, account_number) do update
          set account_name = excluded.account_name, last_used_at = excluded.last_used_at
      )
      insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor,
        available_minor, fees_minor, nets_zero)
      -- nets_zero: the return of a held payment belongs to the statement.
      select event_id, business_id, live, kind, at, payload, id, pending_minor, available_minor, fees_minor,
        (pending_minor, available_minor) = (0, 0)
      from input`,
    values: [
      ...[businessId, live, new Date(createdAtMs), lagosDate(createdAtMs)],
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
      column(({ settlementId }) => settlementId || null),
      column(({ batchId }) => batchId || null),
      column(({ approvalReason }) =>
        approvalReason === '' ? 'requested' : `requested; needs an approval: ${approvalReason}`,
      ),
      ...eventColumns(
        column((payout) => {
          const postings = postingsOf(payout, payout.status, { isNew: true })
          return eventOf(payout, postings, createdAtMs, true)
        }),
      ),
    ],
  })
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
  if (kind === undefined) return undefined
  const id = newId('evt', nowMs)
  const payload = encodePayoutEvent(payout, { kind, eventId: id, nowMs })
  return { id, kind, payload, ...balanceChangeOf(postings) }
}

/** Id, kind, payload and the changes of the balances of each event; nulls where there is none. */
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

/** A payout as it was read, and what changes. */
export interface Changing {
  readonly before: Payout
  readonly change: PayoutChange
  /** Where its money goes back to; absent: where it came from. */
  readonly releasedTo?: Source
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
  // One statement changes it all. Only refunds of payments that are pending or held need more.
  if (before.source === 'available') {
    const [after] = await changePayouts(pool, [{ before, change }], nowMs)
    return after
  }
  return inTransaction(pool, async (client) => {
    await lockPayout(client, before.id)
    const [after] = await changeIn(client, [{ before, change }], nowMs)
    if (after !== undefined) await onChanged?.(client, after)
    return after
  })
}

/** As `changePayouts`, in a transaction of the caller, who has locked the payouts. */
async function changeIn(
  client: PoolClient,
  changes: readonly Changing[],
  nowMs: number,
): Promise<readonly (Payout | undefined)[]> {
  const released: Changing[] = []
  for (const { before, change } of changes) {
    const isReleased = isFinal(change.status) && change.status !== before.status
    const releasedTo = isReleased ? await lockSource(client, before) : before.source
    released.push({ before, change, releasedTo })
  }
  return changePayouts(client, released, nowMs)
}

/** Changes payouts that the transaction of the caller has locked: they are as they were read. */
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

/**
 * Changes payouts in one statement, each if it is still as it was read and no other instance took it up since. If the database
 * refuses one change, it makes none.
 *
 * @returns in the order of the changes; undefined: that one changed nothing
 */
export async function changePayouts(
  on: Queryable,
  changes: readonly Changing[],
  nowMs: number,
): Promise<readonly (Payout | undefined)[]> {
  if (changes.length === 0) return []
  // In the order of their ids, in which others lock them, too.
  const rows = changes
    .map((changing) => changeRow(changing, nowMs))
    .sort((a, b) => (a.after.id < b.after.id ? -1 : 1))
  const column = <T>(of: (row: ChangeRow) => T) => rows.map(of)
  const postings = rows.flatMap(({ after, postings }) =>
    postings.map((posting) => ({ ...posting, payoutId: after.id })),
  )
  const { rows: changed } = await on.query<{ id: string }>({
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
        -- any(array(…)) keeps the planner on the primary key.
        where p.id = any(array(select id from input)) and p.id = i.id and p.status = i.was and p.claims = i.claim
        returning p.id, p.business_id, p.live, p.amount_minor, p.transaction_id, i.at, i.status as reached, i.actor, i.step,
          i.released_day, i.refunds_pending, i.event_id, i.kind, i.payload, i.pending_minor, i.available_minor,
          i.fees_minor
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
        -- A payment whose refund was sent back may be refunded again; a returned one is reversed, and has no refund.
        update payout_refund r set refunded_minor = r.refunded_minor - given.minor,
          pending_minor = r.pending_minor - given.pending_minor
        from (
          select transaction_id, sum(amount_minor) as minor,
            coalesce(sum(amount_minor) filter (where refunds_pending), 0) as pending_minor
          from changed where refunds_pending is not null group by transaction_id
        ) given
        where r.transaction_id = given.transaction_id
      ), published as (
        -- nets_zero: it belongs to the statement also if it has no fee.
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor,
          available_minor, fees_minor, nets_zero)
        select event_id, business_id, live, kind, at, payload, id, pending_minor, available_minor, fees_minor,
          (pending_minor, available_minor, fees_minor) = (0, 0, 0)
        from changed where event_id is not null
      )
      select id from changed`,
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
  const ids = new Set(changed.map(({ id }) => id))
  const afters = new Map(rows.map(({ after }) => [after.id, after]))
  return changes.map(({ before: { id } }) => (ids.has(id) ? afters.get(id) : undefined))
}

/** A change as the statement takes it. */
interface ChangeRow extends Omit<Changing, 'releasedTo'> {
  readonly after: Payout
  readonly postings: readonly PayoutPosting[]
  readonly event: OutboxEvent | undefined
  readonly completes: boolean
  /** The day to whose sum it no longer belongs; undefined: it still does. */
  readonly releasedDay: string | undefined
  /** Whether what it refunded is pending again; undefined: the refund stands, or there is none. */
  readonly refundsPending: boolean | undefined
}

function changeRow(
  { before, change, releasedTo = before.source }: Changing,
  nowMs: number,
): ChangeRow {
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
  const release = postings.find(({ kind }) => kind === 'release')
  const endsRefund = moved && status === (before.source === 'held' ? 'PAID' : 'RETURNED')
  return {
    ...{ before, change, after, postings, completes },
    event: moved ? eventOf(after, postings, nowMs) : undefined,
    releasedDay: release && lagosDate(before.createdAtMs),
    refundsPending: release || endsRefund ? release?.credit === 'pending' : undefined,
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
