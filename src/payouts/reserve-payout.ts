import type { PoolClient } from 'pg'
import type { Actor } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import { HOUR_MS } from '../core/durations.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import { firstIdAt, newId } from '../core/ids.ts'
import { AMOUNT_MINOR_MAX, formatAmount } from '../core/money.ts'
import { inTransaction, KEEPING_PLANS, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Semaphore } from '../postgres/semaphore.ts'
import { readBalanceToReserve } from '../settlement/get-balance.ts'
import { readPolicies } from './change-policy.ts'
import { bankReferenceOf, type Payout, type PayoutPurpose, type Source } from './payout.ts'
import { approvalReason, dutyOf, feeOf, limitFault, type PayoutPolicy } from './policy.ts'
import type { NameContext, ResolvedAccount } from './resolve-name.ts'
import { findByReference, insertPayouts, lagosDate } from './store.ts'

export interface PayoutContext extends Runtime, NameContext {
  /** Limits how many requests hold a connection while they wait for the lock of a balance. */
  readonly semaphore: Semaphore
  /** Counts a payout in the status that it has reached. Called after the commit. */
  readonly count: (payout: Pick<Payout, 'status' | 'live'>) => void
  /** Wakes the loop that sends payouts. */
  readonly wake: () => void
  /** Wakes the loop that makes payouts of the items of batches. */
  readonly wakeItems: () => void
}

/** A payout to be reserved, whose account is resolved. */
export interface Reservation {
  readonly businessId: string
  readonly live: boolean
  /** Unique for the business and mode. */
  readonly reference: string
  readonly purpose: PayoutPurpose
  readonly source: Source
  readonly amountMinor: bigint
  readonly resolved: ResolvedAccount
  readonly narration: string
  readonly requestedBy: string
  /** Why the payout needs an approval regardless of the rules; empty: the rules decide. */
  readonly approval: string
  readonly transactionId: string
  readonly refundedSessionId: string
  readonly unmatchedPaymentId: string
  readonly unmatchedBank: BankCode | ''
  readonly settlementId: string
  readonly batchId: string
  /** The name of the amount in the JSON form of the request. */
  readonly amountField: string
  /** Why it is requested, for its history; empty: the caller does not say. */
  readonly reason: string
}

/** Who requested a payout, as it is stored and shown: `token:tok_…`, `secret_key:key_…`, `bootstrap`, `system`. */
export function requesterOf({ kind, id }: Pick<Actor, 'kind' | 'id'>): string {
  return id === '' ? kind : `${kind}:${id}`
}

/** The prefix of references of settlement payouts. No other payout may use it. */
export const SETTLEMENT_REFERENCE = 'settlement:'

/** The origin of a payout that is not a refund, not of a settlement, in no batch, and without a stated reason. */
export const NO_ORIGIN = {
  transactionId: '',
  refundedSessionId: '',
  unmatchedPaymentId: '',
  unmatchedBank: '',
  settlementId: '',
  batchId: '',
  reason: '',
} as const

/** @throws Fault duplicate_reference */
export function replay(payout: Payout, isSame: boolean) {
  if (isSame) return { payout, replayed: true }
  throw new Fault('duplicate_reference', 'The reference was already used with other details', {
    fields: [{ field: 'reference', message: 'was already used with other details' }],
  })
}

/** A payout that was reserved now, or by an earlier request with the same reference. */
interface Reserved {
  readonly payout: Payout
  readonly replayed: boolean
}

/** Determines details under the lock of the balance. Not called if the reference was used before. */
type Prepare = (
  client: PoolClient,
) => Promise<Pick<Reservation, 'source' | 'amountMinor'> & Partial<Pick<Reservation, 'reference'>>>

/**
 * Reserves one payout by `reserveTogether`. Nothing is stored if it is refused.
 *
 * @param prepare may lock rows; they are locked after the balance, in the same order as reversals lock them
 */
export async function reserve(
  context: PayoutContext,
  reservation: Reservation,
  prepare?: Prepare,
): Promise<Reserved> {
  const [reserved] = await reserveTogether(context, [reservation], {
    prepare,
    async beforeCommit(_, [result]) {
      if (result instanceof Fault) throw result
    },
  })
  assert(reserved && !(reserved instanceof Fault), 'a refused payout is rolled back')
  return reserved
}

interface Together {
  readonly prepare?: Prepare | undefined
  /** Runs in the transaction of the reservations, with their results. */
  readonly beforeCommit: (
    client: PoolClient,
    results: readonly (Reserved | Fault)[],
  ) => Promise<void>
}

/**
 * Reserves payouts of one balance, under the lock that serializes the settlements, reversals and payouts of the balance.
 * So concurrent requests at any instance never make the available balance negative. A refused payout does not hold up
 * the others.
 *
 * @returns in the order of the reservations
 */
export async function reserveTogether(
  context: PayoutContext,
  reservations: readonly [Reservation, ...Reservation[]],
  { prepare, beforeCommit }: Together,
): Promise<readonly (Reserved | Fault)[]> {
  const { database, semaphore, onCommit, count, wake } = context
  const [first] = reservations
  const policies = await readPolicies(database.durablePool, first.businessId)
  const results = await semaphore(() =>
    inTransaction(
      database.durablePool,
      async (client) => {
        await lockBalance(client, first, policies)
        const decided = await decideLocked(context, client, { reservations, policies, prepare })
        await beforeCommit(client, decided)
        return decided
      },
      KEEPING_PLANS,
    ),
  )
  const reserved = results.flatMap((result) =>
    result instanceof Fault || result.replayed ? [] : result.payout,
  )
  for (const payout of reserved) count(payout)
  if (reserved.length > 0) onCommit()
  if (reserved.some(({ status }) => status === 'APPROVED')) wake()
  return results
}

/** Whether an earlier request with the same reference had the same details. */
function isSameReservation(original: Payout, { resolved, ...reservation }: Reservation): boolean {
  const { destination } = original
  return (
    original.purpose === reservation.purpose &&
    // The amount is 0 if a refund requests all that is left.
    (reservation.amountMinor === 0n || original.amountMinor === reservation.amountMinor) &&
    original.narration === reservation.narration &&
    original.transactionId === reservation.transactionId &&
    original.batchId === reservation.batchId &&
    destination.bankCode === resolved.destination.bankCode &&
    destination.accountNumber === resolved.destination.accountNumber
  )
}

type Policies = Awaited<ReturnType<typeof readPolicies>>

/** Locks a balance, after the sums of the installation if its rules limit them. */
export async function lockBalance(
  client: PoolClient,
  { businessId, live }: Pick<Reservation, 'businessId' | 'live'>,
  { installation }: Policies,
): Promise<void> {
  if (isLimited(installation)) await lockInstallation(client, live)
  await client.query({
    name: 'payout-lock-balance',
    text: 'select lock_settled($1, $2, false)',
    values: [businessId, live],
  })
}

function isLimited(policy: PayoutPolicy | undefined): boolean {
  return policy !== undefined && (policy.dailyMaxMinor > 0n || policy.monthlyMaxMinor > 0n)
}

/** Serializes all requests of a mode while the installation limits their sum. */
async function lockInstallation(client: PoolClient, live: boolean): Promise<void> {
  await client.query("select pg_advisory_xact_lock(hashtextextended('payout limits ' || $1, 0))", [
    `${live}`,
  ])
}

/** Reserves a payout whose balance the caller has locked. @throws Fault */
export async function reserveLocked(
  context: PayoutContext,
  client: PoolClient,
  reservation: Reservation,
  policies: Policies,
): Promise<Payout> {
  const reservations = [reservation] as const
  const [result] = await decideLocked(context, client, { reservations, policies })
  assert(result, 'each reservation has a result')
  if (result instanceof Fault) throw result
  return result.payout
}

/** Decides reservations one after the other, and stores the accepted payouts. The caller holds the locks. */
async function decideLocked(
  { clock }: PayoutContext,
  client: PoolClient,
  {
    reservations,
    policies,
    prepare,
  }: {
    readonly reservations: readonly [Reservation, ...Reservation[]]
    readonly policies: Policies
    readonly prepare?: Prepare | undefined
  },
): Promise<readonly (Reserved | Fault)[]> {
  const [{ businessId, live }] = reservations
  const nowMs = clock.now()
  const state = await readState(client, reservations, policies, nowMs)
  const results: (Reserved | Fault)[] = []
  for (const [at, reservation] of reservations.entries()) {
    try {
      results.push(
        state.usedAt[at]
          ? await replayOf(client, reservation)
          : await decideOne(client, state, {
              ...reservation,
              ...(await prepare?.(client)),
              firstUsedAtMs: state.firstUsedAtMs[at] ?? undefined,
            }),
      )
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      results.push(error)
    }
  }
  const added = results.flatMap((each, at) =>
    each instanceof Fault || each.replayed
      ? []
      : { ...each.payout, reason: reservations[at]?.reason ?? '' },
  )
  if (added.length === 0) return results
  const inserted = await insertPayouts(client, { businessId, live, createdAtMs: nowMs }, added)
  const stored = new Map(inserted.map((payout) => [payout.id, payout]))
  return results.map((each) => {
    const payout = each instanceof Fault ? undefined : stored.get(each.payout.id)
    return payout === undefined ? each : { payout, replayed: false }
  })
}

async function replayOf(client: PoolClient, reservation: Reservation): Promise<Reserved> {
  const original = await findByReference(client, reservation)
  assert(original, 'a payout is never removed')
  return replay(original, isSameReservation(original, reservation))
}

/** Applies the rules and the balance to a reservation. @throws Fault */
async function decideOne(
  client: PoolClient,
  state: BalanceState,
  reservation: Reservation & { readonly firstUsedAtMs: number | undefined },
): Promise<Reserved> {
  const { amountMinor, reference, purpose, resolved } = reservation
  const { own, installation, nowMs, day } = state
  if (purpose !== 'SETTLEMENT' && reference.startsWith(SETTLEMENT_REFERENCE)) {
    const message = `must not begin with "${SETTLEMENT_REFERENCE}"`
    throw invalidFields([{ field: 'reference', message }])
  }
  if (state.pauseReason !== null) throw pausedFault(state.pauseReason)
  const fault =
    limitFault(own, { amountMinor, ...state.ownSums }) ??
    (installation && limitFault(installation, { amountMinor, ...state.installationSums }))
  if (fault !== undefined) throw invalidFields([{ field: reservation.amountField, message: fault }])
  const approval =
    reservation.approval ||
    (purpose === 'SETTLEMENT' ? '' : await approvalOf(client, state, reservation))
  // The business pays neither fee nor duty for a refund.
  const isCharged = purpose !== 'REFUND'
  const feeMinor = isCharged ? feeOf(own.fees, amountMinor) : 0n
  const dutyMinor = isCharged && own.chargeDuty ? dutyOf(amountMinor, day) : 0n
  await takeBalance(client, state, reservation, amountMinor + feeMinor + dutyMinor)
  for (const sums of [state.ownSums, state.installationSums]) {
    sums.dayMinor += amountMinor
    sums.monthMinor += amountMinor
  }
  const key = beneficiaryKey(reservation)
  state.requested.set(key, (state.requested.get(key) ?? 0n) + amountMinor)
  const approvalHours = Math.min(own.approvalHours, installation?.approvalHours ?? Infinity)
  const expiresAtMs = approval === '' ? undefined : nowMs + approvalHours * HOUR_MS
  const payout: Payout = {
    id: newId('pay', nowMs),
    businessId: reservation.businessId,
    live: reservation.live,
    reference,
    purpose,
    status: approval === '' ? 'APPROVED' : 'PENDING_APPROVAL',
    source: reservation.source,
    amountMinor,
    feeMinor,
    dutyMinor,
    destination: resolved.destination,
    narration: reservation.narration,
    resolvedBank: resolved.bank,
    enquiryReference: resolved.enquiryReference,
    bank: undefined,
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
    expiresAtMs,
    nextAtMs: expiresAtMs ?? nowMs,
    submittedAtMs: undefined,
    completedAtMs: undefined,
    claims: 0,
    attempts: 0,
    transactionId: reservation.transactionId,
    refundedSessionId: reservation.refundedSessionId,
    unmatchedPaymentId: reservation.unmatchedPaymentId,
    unmatchedBank: reservation.unmatchedBank,
    settlementId: reservation.settlementId,
    batchId: reservation.batchId,
    generation: 0,
  }
  return { payout, replayed: false }
}

/** Why the rules require an approval; empty: they do not. */
async function approvalOf(
  client: PoolClient,
  { own, installation, nowMs, requested }: BalanceState,
  reservation: Reservation & { readonly firstUsedAtMs: number | undefined },
): Promise<string> {
  const { amountMinor, firstUsedAtMs } = reservation
  const here = requested.get(beneficiaryKey(reservation)) ?? 0n
  const reasonOf = (earlierMinor: bigint): string | undefined => {
    const known = { amountMinor, firstUsedAtMs, earlierMinor, nowMs }
    return approvalReason(own, known) ?? (installation && approvalReason(installation, known))
  }
  const hours = Math.max(own.coolDownHours, installation?.coolDownHours ?? 0)
  const isNew = firstUsedAtMs !== undefined && nowMs < firstUsedAtMs + hours * HOUR_MS
  const reason = reasonOf(here)
  if (reason !== undefined || !isNew) return reason ?? ''
  return reasonOf(here + (await readEarlier(client, reservation, firstUsedAtMs))) ?? ''
}

function beneficiaryKey({ resolved: { destination } }: Reservation): string {
  return `${destination.bankCode} ${destination.accountNumber}`
}

interface Sums {
  dayMinor: bigint
  monthMinor: bigint
}

/** The state by which reservations are decided. Each accepted reservation is added to the sums, so it counts for the next. */
interface BalanceState extends Policies {
  readonly nowMs: number
  /** In Lagos. */
  readonly day: string
  /** Null: the payouts of the business are not paused. */
  readonly pauseReason: string | null
  readonly ownSums: Sums
  readonly installationSums: Sums
  /** Whether the reference of each reservation was used before. */
  readonly usedAt: readonly boolean[]
  /** When the beneficiary of each reservation was first used, in epoch milliseconds. */
  readonly firstUsedAtMs: readonly (number | null)[]
  /** The sums that this transaction has accepted so far, by beneficiary, in kobo. */
  readonly requested: Map<string, bigint>
  /** The rest of the balance; undefined: it was not read yet. */
  left: { availableMinor: bigint; pendingMinor: bigint } | undefined
}

async function readState(
  client: PoolClient,
  reservations: readonly [Reservation, ...Reservation[]],
  policies: Policies,
  nowMs: number,
): Promise<BalanceState> {
  const [{ businessId, live }] = reservations
  const day = lagosDate(nowMs)
  const { rows } = await client.query<{
    day: string
    month: string
    pause: string | null
    isUsed: boolean
    firstUsedAtMs: number | null
  }>({
    name: 'payout-state',
    // "(select …)" hides the values from the planner. Otherwise it would make a custom plan for each execution.
    text: `select sums.day, sums.month,
        (select reason from payout_pause where scope = 'BUSINESS' and target = $1) as pause,
        exists (select from payout p
          where p.business_id = $1 and p.live = $2 and p.reference = r.reference) as "isUsed",
        (select round(date_part('epoch', first_used_at) * 1000) from payout_beneficiary b
          where b.business_id = $1 and b.live = $2 and b.bank_code = r.bank_code
            and b.account_number = r.account_number) as "firstUsedAtMs"
      from (
        select coalesce(sum(requested_minor) filter (where day = $3), 0) as day,
          coalesce(sum(requested_minor), 0) as month
        from payout_day
        where business_id = $1 and live = $2 and day >= date_trunc('month', $3::date)::date and day <= $3
      ) sums cross join unnest((select $4::text[]), (select $5::text[]), (select $6::text[]))
        with ordinality r (reference, bank_code, account_number, number)
      order by r.number`,
    values: [
      businessId,
      live,
      day,
      reservations.map(({ reference }) => reference),
      reservations.map(({ resolved }) => resolved.destination.bankCode),
      reservations.map(({ resolved }) => resolved.destination.accountNumber),
    ],
  })
  return {
    ...policies,
    nowMs,
    day,
    pauseReason: rows[0]?.pause ?? null,
    ownSums: sumsOf(rows[0]),
    installationSums: isLimited(policies.installation)
      ? await readAllSums(client, live, day)
      : sumsOf(undefined),
    usedAt: rows.map(({ isUsed }) => isUsed),
    firstUsedAtMs: rows.map((row) => row.firstUsedAtMs),
    requested: new Map(),
    left: undefined,
  }
}

/** The sums that all businesses requested on the day and in its month. */
async function readAllSums(client: PoolClient, live: boolean, day: string): Promise<Sums> {
  const { rows } = await client.query<{ day: string; month: string }>({
    name: 'payout-all-sums',
    text: `select coalesce(sum(requested_minor) filter (where day = $2), 0) as day,
        coalesce(sum(requested_minor), 0) as month
      from payout_day where live = $1 and day >= date_trunc('month', $2::date)::date and day <= $2`,
    values: [live, day],
  })
  return sumsOf(rows[0])
}

function sumsOf(row: { readonly day: string; readonly month: string } | undefined): Sums {
  return { dayMinor: BigInt(row?.day ?? 0), monthMinor: BigInt(row?.month ?? 0) }
}

/** @throws Fault payouts_paused */
export async function requireNotPaused(client: Queryable, businessId: string): Promise<void> {
  const { rows } = await client.query<{ reason: string }>(
    "select reason from payout_pause where scope = 'BUSINESS' and target = $1",
    [businessId],
  )
  if (rows[0] !== undefined) throw pausedFault(rows[0].reason)
}

function pausedFault(cause: string): Fault {
  return new Fault('payouts_paused', 'Payouts of this business are paused', {
    cause,
    fields: [{ field: 'businessId', message: 'its payouts are paused' }],
  })
}

/** How many payouts to a new beneficiary are added up. If there are more, the next payout needs an approval. */
const EARLIER_MAX = 1_000

/** The longest time for an approval. A beneficiary counts as used only once its payout is approved. */
const APPROVAL_MS_MAX = 720 * HOUR_MS

/**
 * The sum that was requested for a new beneficiary, less the payouts that were not paid, so that many small payouts count
 * like a large one.
 *
 * @param sinceMs when the beneficiary was first used
 * @returns kobo; more than any limit if there are too many to add up
 */
async function readEarlier(
  client: PoolClient,
  { businessId, live, resolved }: Reservation,
  sinceMs: number,
): Promise<bigint> {
  const { bankCode, accountNumber } = resolved.destination
  const { rows } = await client.query<{ minor: string | null }>({
    name: 'payout-earlier',
    text: `select case when count(*) < ${EARLIER_MAX} then coalesce(sum(amount_minor), 0) end as minor from (
        select amount_minor from payout
        where account_number = $1 and id >= $2 and bank_code = $3 and coalesce(business_id, '') = $4 and live = $5
          and status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED')
        order by id desc limit ${EARLIER_MAX}
      ) earlier`,
    values: [
      accountNumber,
      firstIdAt('pay', sinceMs - APPROVAL_MS_MAX),
      bankCode,
      businessId,
      live,
    ],
  })
  return BigInt(rows[0]?.minor ?? AMOUNT_MINOR_MAX)
}

/** Takes an amount from the rest of the balance. @throws Fault insufficient_balance, unavailable */
async function takeBalance(
  client: PoolClient,
  state: BalanceState,
  { businessId, live, source, amountField }: Reservation,
  totalMinor: bigint,
): Promise<void> {
  // A held or unmatched payment is in no balance; the caller has locked the payment.
  if (source === 'held' || source === 'unmatched') return
  if (state.left === undefined) {
    const { availableMinor, pendingMinor } = await readBalanceToReserve(client, {
      businessId,
      live,
    })
    state.left = { availableMinor, pendingMinor }
  }
  const name = source === 'available' ? 'availableMinor' : 'pendingMinor'
  const hasMinor = state.left[name]
  if (hasMinor >= totalMinor) {
    state.left[name] -= totalMinor
    return
  }
  const text = `needs ${formatAmount(totalMinor)} naira with fee and duty; ${formatAmount(hasMinor)} are ${source}`
  throw new Fault('insufficient_balance', `The payout ${text}`, {
    fields: [{ field: amountField, message: text }],
    facts: { needed_minor: `${totalMinor}`, has_minor: `${hasMinor}` },
  })
}
