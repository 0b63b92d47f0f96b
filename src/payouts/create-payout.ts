import type { PoolClient } from 'pg'
import type { Actor } from '../auth/caller.ts'
import { getBusiness } from '../businesses/get-business.ts'
import { HOUR_MS } from '../core/durations.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { firstIdAt, newId } from '../core/ids.ts'
import { AMOUNT_MINOR_MAX, formatAmount } from '../core/money.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { readCurrentBalance } from '../settlement/get-balance.ts'
import { readPolicies } from './change-policy.ts'
import { bankReferenceOf, type Payout, type PayoutPurpose, type Source } from './payout.ts'
import { approvalReason, dutyOf, feeOf, limitFault, type PayoutPolicy } from './policy.ts'
import {
  type NameContext,
  type RequestedAccount,
  type ResolvedAccount,
  resolveAccount,
} from './resolve-name.ts'
import { findByReference, insertPayout, lagosDate } from './store.ts'

/** What requesting payouts needs. */
export interface PayoutContext extends Runtime, NameContext {
  /** Limits how many requests hold a connection while they wait for the lock of a balance. */
  readonly semaphore: Semaphore
  /** Counts that a payout has reached a status, once that is committed. */
  readonly count: (payout: Pick<Payout, 'status' | 'live'>) => void
  /** Reports that a payout may be sent. */
  readonly wake: () => void
}

/** A request for a payout. */
export interface PayoutRequest {
  readonly businessId: string
  readonly live: boolean
  /** Unique for the business and mode. */
  readonly reference: string
  readonly amountMinor: bigint
  readonly account: RequestedAccount
  /** Names the account in place of an expected name; may be empty. */
  readonly resolution: string
  /** Empty: the name of the business. */
  readonly narration: string
}

/** A payout as it is reserved: its account is known. */
export interface Reservation extends Pick<PayoutRequest, 'businessId' | 'live' | 'reference'> {
  readonly purpose: PayoutPurpose
  readonly source: Source
  readonly amountMinor: bigint
  readonly resolved: ResolvedAccount
  readonly narration: string
  readonly requestedBy: string
  /** Why it needs an approval whatever the rules say; empty: it does not. */
  readonly approval: string
  /** Whether the business pays fees and duty for it. */
  readonly isCharged: boolean
  readonly transactionId: string
  readonly refundedSessionId: string
  readonly settlementId: string
  readonly batchId: string
  /** The name of the amount in the JSON form of the request. */
  readonly amountField: string
}

/** Who requested a payout, as it is stored and shown: `token:tok_…`, `secret_key:key_…`, `bootstrap`, `system`. */
export function requesterOf({ kind, id }: Pick<Actor, 'kind' | 'id'>): string {
  return id === '' ? kind : `${kind}:${id}`
}

/**
 * Requests a payout: resolves the name of its account, applies the rules, and reserves its amount, fee and duty. A repeat
 * with the same details returns the original.
 *
 * @throws Fault not_found, validation_failed, name_mismatch, duplicate_reference, insufficient_balance, payouts_paused,
 * bank_unavailable, unavailable
 */
export async function createPayout(
  context: PayoutContext,
  request: PayoutRequest,
  actor: Pick<Actor, 'kind' | 'id'>,
): Promise<{ readonly payout: Payout; readonly replayed: boolean }> {
  const { database, institutions, clock } = context
  const { name } = await getBusiness(database, request.businessId)
  const original = await findByReference(database.durablePool, request)
  if (original !== undefined) {
    const bankCode = institutions.find(request.account.bankCode)?.code
    // The business may have another name by now.
    const isSame =
      bankCode === original.destination.bankCode &&
      ['', original.narration].includes(request.narration)
    return replay(original, isSame && isRepeated(original, request))
  }
  const resolved = await resolveAccount(context, request, request, clock.now())
  const narration = request.narration || name.slice(0, NARRATION_MAX)
  return reserve(context, {
    ...request,
    ...NO_ORIGIN,
    purpose: 'PAYOUT',
    source: 'available',
    resolved,
    narration,
    requestedBy: requesterOf(actor),
    approval: '',
    isCharged: true,
    amountField: 'amountMinor',
  })
}

/** The largest narration. */
export const NARRATION_MAX = 100

/** How references of payouts of settlements begin: no other payout may have such a one. */
export const SETTLEMENT_REFERENCE = 'settlement:'

/** A payout that refunds and settles nothing, and is in no batch. */
export const NO_ORIGIN = { transactionId: '', refundedSessionId: '', settlementId: '', batchId: '' }

function isRepeated(original: Payout, { amountMinor, account }: PayoutRequest): boolean {
  return (
    original.purpose === 'PAYOUT' &&
    original.amountMinor === amountMinor &&
    original.destination.accountNumber === account.accountNumber
  )
}

/** @throws Fault duplicate_reference */
export function replay(payout: Payout, isSame: boolean) {
  if (isSame) return { payout, replayed: true }
  throw new Fault('duplicate_reference', 'The reference was already used with other details', {
    fields: [{ field: 'reference', message: 'was already used with other details' }],
  })
}

/**
 * Reserves a payout, under the lock that orders the settlements, reversals and payouts of a balance: what is available
 * never falls below zero because of it, whatever other requests, at whatever instance, run beside it.
 *
 * @param prepare decides what is known only once the balance is locked, unless the reference was used before. Rows are
 * locked after balances, as reversals do.
 */
export async function reserve(
  context: PayoutContext,
  reservation: Reservation,
  prepare?: (client: PoolClient) => Promise<Pick<Reservation, 'source' | 'amountMinor'>>,
): Promise<{ readonly payout: Payout; readonly replayed: boolean }> {
  const { database, semaphore, onCommit, count, wake } = context
  const { businessId, purpose, reference } = reservation
  if (purpose !== 'SETTLEMENT' && reference.startsWith(SETTLEMENT_REFERENCE)) {
    const message = `must not begin with "${SETTLEMENT_REFERENCE}"`
    throw invalidFields([{ field: 'reference', message }])
  }
  const policies = await readPolicies(database.orm.em.fork(), businessId)
  const result = await semaphore(() =>
    inTransaction(database.durablePool, async (client) => {
      if (isLimited(policies.installation)) await lockInstallation(client, reservation.live)
      await client.query('select lock_settled($1, $2, false)', [businessId, reservation.live])
      const original = await findByReference(client, reservation)
      if (original !== undefined) return replay(original, isSameReservation(original, reservation))
      const decided = { ...reservation, ...(await prepare?.(client)) }
      const payout = await reserveLocked(context, client, decided, policies)
      return { payout, replayed: false }
    }),
  )
  if (!result.replayed) {
    count(result.payout)
    onCommit()
    wake()
  }
  return result
}

/** Another request with the reference came first. */
function isSameReservation(original: Payout, { resolved, ...reservation }: Reservation): boolean {
  const { destination } = original
  return (
    original.purpose === reservation.purpose &&
    // A refund of all that is left states no amount.
    (reservation.amountMinor === 0n || original.amountMinor === reservation.amountMinor) &&
    original.narration === reservation.narration &&
    original.transactionId === reservation.transactionId &&
    original.batchId === reservation.batchId &&
    destination.bankCode === resolved.destination.bankCode &&
    destination.accountNumber === resolved.destination.accountNumber
  )
}

function isLimited(policy: PayoutPolicy | undefined): boolean {
  return policy !== undefined && (policy.dailyMaxMinor > 0n || policy.monthlyMaxMinor > 0n)
}

/** Orders all requests of a mode while the installation limits their sum. */
async function lockInstallation(client: PoolClient, live: boolean): Promise<void> {
  await client.query("select pg_advisory_xact_lock(hashtextextended('payout limits ' || $1, 0))", [
    `${live}`,
  ])
}

/** Checks the rules and the balance, and stores the payout. The caller holds the locks. */
async function reserveLocked(
  { clock }: PayoutContext,
  client: PoolClient,
  reservation: Reservation,
  {
    own,
    installation,
  }: { readonly own: PayoutPolicy; readonly installation: PayoutPolicy | undefined },
): Promise<Payout> {
  const { businessId, live, amountMinor, resolved, isCharged } = reservation
  await requireNotPaused(client, businessId)
  const nowMs = clock.now()
  const day = lagosDate(nowMs)
  const sums = await readSums(client, reservation, day, isLimited(installation))
  const fault =
    limitFault(own, { amountMinor, ...sums.own }) ??
    (installation && limitFault(installation, { amountMinor, ...sums.installation }))
  if (fault !== undefined) throw invalidFields([{ field: reservation.amountField, message: fault }])
  const { firstUsedAtMs } = sums
  const hours = Math.max(own.coolDownHours, installation?.coolDownHours ?? 0)
  const isNew = firstUsedAtMs !== undefined && nowMs < firstUsedAtMs + hours * HOUR_MS
  const earlierMinor = isNew ? await readEarlier(client, reservation, firstUsedAtMs) : 0n
  const known = { amountMinor, firstUsedAtMs, earlierMinor, nowMs }
  const isTrusted = reservation.purpose === 'SETTLEMENT'
  const approval =
    reservation.approval ||
    (isTrusted
      ? ''
      : (approvalReason(own, known) ?? (installation && approvalReason(installation, known)) ?? ''))
  const feeMinor = isCharged ? feeOf(own.fees, amountMinor) : 0n
  const dutyMinor = isCharged && own.chargeDuty ? dutyOf(amountMinor, day) : 0n
  await requireBalance(client, reservation, amountMinor + feeMinor + dutyMinor)
  const id = newId('pay', nowMs)
  const approvalMs = own.approvalHours * HOUR_MS
  return insertPayout(client, {
    id,
    businessId,
    live,
    reference: reservation.reference,
    purpose: reservation.purpose,
    status: approval === '' ? 'APPROVED' : 'PENDING_APPROVAL',
    source: reservation.source,
    amountMinor,
    feeMinor,
    dutyMinor,
    destination: resolved.destination,
    narration: reservation.narration,
    resolvedBank: resolved.bank,
    enquiryReference: resolved.enquiryReference,
    bankReference: bankReferenceOf(reservation),
    routing: '',
    sessionId: '',
    failureReason: '',
    detail: '',
    requestedBy: reservation.requestedBy,
    approvalReason: approval,
    decidedBy: '',
    decisionNote: '',
    createdAtMs: nowMs,
    expiresAtMs: approval === '' ? undefined : nowMs + approvalMs,
    claims: 0,
    attempts: 0,
    transactionId: reservation.transactionId,
    refundedSessionId: reservation.refundedSessionId,
    settlementId: reservation.settlementId,
    batchId: reservation.batchId,
  })
}

/** @throws Fault payouts_paused */
export async function requireNotPaused(client: Queryable, businessId: string): Promise<void> {
  const { rows } = await client.query<{ reason: string }>(
    "select reason from payout_pause where scope = 'BUSINESS' and target = $1",
    [businessId],
  )
  if (rows[0] === undefined) return
  throw new Fault('payouts_paused', 'Payouts of this business are paused', {
    cause: rows[0].reason,
    fields: [{ field: 'businessId', message: 'its payouts are paused' }],
  })
}

interface Sums {
  readonly dayMinor: bigint
  readonly monthMinor: bigint
}

/** What was requested on the day and in its month, and when the beneficiary was first used. */
async function readSums(
  client: PoolClient,
  { businessId, live, resolved }: Reservation,
  day: string,
  ofAll: boolean,
): Promise<{ own: Sums; installation: Sums; firstUsedAtMs: number | undefined }> {
  const { bankCode, accountNumber } = resolved.destination
  const { rows } = await client.query<{ day: string; month: string; first_ms: number | null }>({
    name: 'payout-sums',
    text: `select coalesce(sum(requested_minor) filter (where day = $3), 0) as day,
        coalesce(sum(requested_minor), 0) as month,
        (select round(date_part('epoch', first_used_at) * 1000) from payout_beneficiary b
          where b.business_id = $1 and b.live = $2 and b.bank_code = $4 and b.account_number = $5) as first_ms
      from payout_day
      where business_id = $1 and live = $2 and day >= date_trunc('month', $3::date)::date and day <= $3`,
    values: [businessId, live, day, bankCode, accountNumber],
  })
  const own = sumsOf(rows[0])
  const firstUsedAtMs = rows[0]?.first_ms ?? undefined
  if (!ofAll) return { own, installation: NO_SUMS, firstUsedAtMs }
  const all = await client.query<{ day: string; month: string }>(
    `select coalesce(sum(requested_minor) filter (where day = $2), 0) as day,
        coalesce(sum(requested_minor), 0) as month
      from payout_day where live = $1 and day >= date_trunc('month', $2::date)::date and day <= $2`,
    [live, day],
  )
  return { own, installation: sumsOf(all.rows[0]), firstUsedAtMs }
}

/** How many payouts to a new beneficiary are added up. More need an approval. */
const EARLIER_MAX = 1_000

/** The longest that an approval takes: a beneficiary is first used when its payout is approved. */
const APPROVAL_MS_MAX = 720 * HOUR_MS

/**
 * What was requested for a new beneficiary, less what was not paid: many small payouts are like a large one.
 *
 * @param sinceMs when it was first used
 * @returns kobo; more than any limit if there are too many to add up
 */
async function readEarlier(
  client: PoolClient,
  { businessId, live, resolved }: Reservation,
  sinceMs: number,
): Promise<bigint> {
  const { bankCode, accountNumber } = resolved.destination
  const { rows } = await client.query<{ minor: string | null }>(
    `select case when count(*) < ${EARLIER_MAX} then coalesce(sum(amount_minor), 0) end as minor from (
        select amount_minor from payout
        where account_number = $1 and id >= $2 and bank_code = $3 and business_id = $4 and live = $5
          and status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED')
        order by id desc limit ${EARLIER_MAX}
      ) earlier`,
    [accountNumber, firstIdAt('pay', sinceMs - APPROVAL_MS_MAX), bankCode, businessId, live],
  )
  return BigInt(rows[0]?.minor ?? AMOUNT_MINOR_MAX)
}

const NO_SUMS: Sums = { dayMinor: 0n, monthMinor: 0n }

function sumsOf(row: { readonly day: string; readonly month: string } | undefined): Sums {
  return row === undefined ? NO_SUMS : { dayMinor: BigInt(row.day), monthMinor: BigInt(row.month) }
}

/** @throws Fault insufficient_balance, unavailable */
async function requireBalance(
  client: PoolClient,
  { businessId, live, source, amountField }: Reservation,
  totalMinor: bigint,
): Promise<void> {
  // A held payment is in no balance; the request for its return has locked it.
  if (source === 'held') return
  const balance = await readCurrentBalance(client, { businessId, live })
  const hasMinor = source === 'available' ? balance.availableMinor : balance.pendingMinor
  if (hasMinor >= totalMinor) return
  const text = `needs ${formatAmount(totalMinor)} naira with fee and duty; ${formatAmount(hasMinor)} are ${source}`
  throw new Fault('insufficient_balance', `The payout ${text}`, {
    fields: [{ field: amountField, message: text }],
    facts: { needed_minor: `${totalMinor}`, has_minor: `${hasMinor}` },
  })
}
