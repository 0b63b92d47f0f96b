import type { PoolClient } from 'pg'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { followLog, type LogFollower } from '../events/follow-log.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { readCurrentBalance } from '../settlement/get-balance.ts'
import type { SettlementPayout } from '../settlement/settlement.ts'
import { getPolicy } from './change-policy.ts'
import { repeatReason } from './find-anywhere.ts'
import { isFinal, type Payout, type PayoutStatus } from './payout.ts'
import { dutyOf, feeOf, type PayoutPolicy } from './policy.ts'
import {
  NO_ORIGIN,
  type PayoutContext,
  type Reservation,
  reserve,
  SETTLEMENT_REFERENCE,
} from './reserve-payout.ts'
import { resolveAccount } from './resolve-name.ts'
import { lagosDate, PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

/** How many failed payouts and refused requests a settlement may have before the service gives up. */
const ATTEMPTS_MAX = 5

/** How long to wait before a payout in progress, an unavailable bank, or a pause is checked again. */
const LOOK_AGAIN_MS = 5 * MINUTE_MS

const EVERY_MS = 2_000

/** The most settlements that one turn of one instance handles. */
const DUE_MAX = 20

/**
 * Pays out settlements to the account that the rules of the business name (`settle_to`).
 *
 * A follower of the event log stores each completed settlement in `settlement_payout`, and every instance handles the rows
 * that are due. A settlement has one payout at a time: the reference of the payout is derived from the settlement and the
 * number of failed payouts, and references are unique. So a settlement is paid once, wherever an instance stops.
 */
export function createPaySettlements(context: PayoutContext): Loop {
  return createLoop({
    name: 'payouts of settlements',
    log: context.log,
    everyMs: EVERY_MS,
    async turn(signal) {
      const hasAll = await followLog(context, COMPLETED, signal)
      const due = await listDue(context)
      for (const each of due) {
        if (signal.aborted) return undefined
        await handle(context, each)
      }
      return due.length === DUE_MAX || !hasAll ? 0 : undefined
    },
  })
}

/** Stores the settlements that complete while their business has a `settle_to`. */
const COMPLETED: LogFollower = {
  name: 'payouts',
  async lock(client) {
    const { rows } = await client.query<{ held: boolean }>(
      "select pg_try_advisory_xact_lock(hashtextextended('payouts of settlements', 0)) as held",
    )
    return rows[0]?.held ?? false
  },
  take: noteCompleted,
  onGap: noteRecent,
}

/** @returns how many events there were */
async function noteCompleted(client: PoolClient, after: bigint, upTo: bigint): Promise<bigint> {
  const { rows } = await client.query<{ events: string }>({
    name: 'settlement-payout-note',
    text: `with next as materialized (
        select outbox_seq, business_id from event_log where position > $1 and position <= $2
      ), noted as (
        insert into settlement_payout (settlement_id, business_id, live, net_minor, next_at)
        select s.id, s.business_id, s.live, s.gross_minor - s.fees_minor - s.splits_minor, now()
        from next n join payout_policy p on p.business_id = n.business_id and p.settle_to is not null
          cross join lateral (select kind, subject_id from outbox where seq = n.outbox_seq offset 0) o
          join settlement s on s.id = o.subject_id
        where o.kind = 'SETTLEMENT_COMPLETED' and s.gross_minor > s.fees_minor + s.splits_minor
        on conflict do nothing
      )
      select count(*) as events from next`,
    values: [after, upTo],
  })
  return BigInt(rows[0]?.events ?? 0)
}

/** Stores the settlements of the last three days, because the missing events may have announced them. */
async function noteRecent(client: PoolClient): Promise<void> {
  await client.query(
    `insert into settlement_payout (settlement_id, business_id, live, net_minor, next_at)
      select s.id, s.business_id, s.live, s.gross_minor - s.fees_minor - s.splits_minor, now()
      from payout_policy p join settlement s on s.business_id = p.business_id
      where p.settle_to is not null and s.completed_at > greatest(p.updated_at, now() - interval '3 days')
        and s.gross_minor > s.fees_minor + s.splits_minor
      on conflict do nothing`,
  )
}

/** A settlement that is paid out. */
interface Noted {
  readonly settlementId: string
  readonly businessId: string
  readonly live: boolean
  readonly netMinor: bigint
  /** How many requests for a payout were refused. */
  readonly refusals: number
  /** Why the settlement is not paid out; empty: there is no obstacle. */
  readonly detail: string
}

async function listDue({ database }: PayoutContext): Promise<Noted[]> {
  const { rows } = await database.durablePool.query<
    Omit<Noted, 'netMinor'> & { readonly netMinor: string }
  >({
    name: 'settlement-payout-due',
    text: `select settlement_id as "settlementId", business_id as "businessId", live, net_minor as "netMinor",
        refusals, detail from settlement_payout where next_at <= now() order by next_at limit ${DUE_MAX}`,
  })
  return rows.map((row) => ({ ...row, netMinor: BigInt(row.netMinor) }))
}

/** Requests the next payout of a settlement, or waits for the last one. */
async function handle(context: PayoutContext, noted: Noted): Promise<void> {
  const nowMs = context.clock.now()
  const payouts = await listPayoutsOf(context, noted.settlementId)
  const last = payouts.at(-1)
  if (last !== undefined && last.status !== 'FAILED') {
    // A paid payout is the end, and so is a payout that an operator cancelled.
    const end = isFinal(last.status) ? 'none' : LOOK_AGAIN_MS
    return note(context, noted, { nextInMs: end, detail: '' })
  }
  if (payouts.length + noted.refusals >= ATTEMPTS_MAX) {
    const { settlementId } = noted
    context.log.error({ settlementId }, 'a settlement could not be paid out: pay it by a payout')
    const detail = `It was tried ${ATTEMPTS_MAX} times${noted.detail && `. The last time: ${noted.detail}`}`
    return note(context, noted, { nextInMs: 'none', detail, isRefused: true })
  }
  const againAtMs = last?.completedAtMs === undefined ? nowMs : last.completedAtMs + DAY_MS
  if (againAtMs > nowMs) {
    return note(context, noted, { nextInMs: againAtMs - nowMs, detail: 'Its payout failed' })
  }
  const number = payouts.length + 1
  const suffix = number === 1 ? '' : `:${number}`
  const reference = `${SETTLEMENT_REFERENCE}${noted.settlementId}${suffix}`
  await note(context, noted, await request(context, noted, reference))
}

interface Outcome {
  readonly nextInMs: number | 'none'
  readonly detail: string
  readonly isRefused?: boolean
}

/** Requests a payout of a settlement. @returns when the settlement is due again */
async function request(context: PayoutContext, noted: Noted, reference: string): Promise<Outcome> {
  const { businessId, live, netMinor, settlementId } = noted
  const policy = await getPolicy(context, businessId)
  if (policy.settleTo === null)
    return { nextInMs: 'none', detail: 'The rules no longer name an account' }
  try {
    const account = { ...policy.settleTo, field: 'settleTo' }
    const resolved = await resolveAccount(
      context,
      { businessId, live },
      { resolution: '', account },
      context.clock.now(),
    )
    const reservation: Reservation = {
      ...NO_ORIGIN,
      businessId,
      live,
      reference,
      settlementId,
      resolved,
      purpose: 'SETTLEMENT',
      source: 'available',
      // Replaced below, once the balance is locked.
      amountMinor: 0n,
      narration: `Settlement ${settlementId}`,
      requestedBy: 'system',
      approval: await repeatReason(context.database.durablePool, settlementId),
      amountField: 'amountMinor',
    }
    await reserve(context, reservation, async (client) => {
      const balance = await readCurrentBalance(client, { businessId, live })
      const day = lagosDate(context.clock.now())
      const amountMinor = payableOf(policy, { ...noted, ...balance }, day)
      if (amountMinor <= 0n) {
        throw new Fault('insufficient_balance', `Of ${netMinor} kobo, nothing is above the floor`)
      }
      return { amountMinor, source: 'available' }
    })
    return { nextInMs: LOOK_AGAIN_MS, detail: '' }
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    return afterFault(context, noted, error)
  }
}

function afterFault({ log }: PayoutContext, { settlementId }: Noted, fault: Fault): Outcome {
  const [first] = fault.fields
  const subject = first?.field === 'amountMinor' ? 'Its amount' : 'Its account'
  const detail =
    fault.reason === 'validation_failed' && first ? `${subject} ${first.message}` : fault.message
  switch (fault.reason) {
    case 'insufficient_balance':
      return { nextInMs: 'none', detail }
    case 'bank_unavailable':
    case 'unavailable':
    case 'payouts_paused':
    case 'duplicate_reference':
      return { nextInMs: LOOK_AGAIN_MS, detail }
    default:
      log.warn({ settlementId, reason: fault.reason, detail }, 'a settlement cannot be paid out')
      return { nextInMs: DAY_MS, detail, isRefused: true }
  }
}

/**
 * The amount of a settlement that is paid out: its net amount, or less if the floor, the fee and the duty leave less of the
 * available balance.
 *
 * @returns kobo; 0 if nothing can be paid
 */
export function payableOf(
  { floorMinor, fees, chargeDuty }: Pick<PayoutPolicy, 'floorMinor' | 'fees' | 'chargeDuty'>,
  { netMinor, availableMinor }: { readonly netMinor: bigint; readonly availableMinor: bigint },
  day: string,
): bigint {
  const room = availableMinor - floorMinor
  let amountMinor = netMinor < room ? netMinor : room
  // Repeated, because a smaller amount may fall into a band with a larger fee.
  while (amountMinor > 0n) {
    const dutyMinor = chargeDuty ? dutyOf(amountMinor, day) : 0n
    const left = room - feeOf(fees, amountMinor) - dutyMinor
    if (amountMinor <= left) return amountMinor
    amountMinor = left
  }
  return 0n
}

/** Why no payout follows the last payout of a settlement, by the status in which that ended. */
const ENDED: Partial<Record<PayoutStatus, string>> = {
  REJECTED: 'Its payout was rejected',
  CANCELLED: 'Its payout was cancelled',
  EXPIRED: 'Its payout was not approved in time',
  RETURNED: "Its payout was sent back by the beneficiary's bank",
}

/** The state of the payout of each settlement. Settlements that are not to be paid out are left out. */
export async function findSettlementPayouts(
  on: Queryable,
  settlementIds: readonly string[],
): Promise<ReadonlyMap<string, SettlementPayout>> {
  const { rows } = await on.query<
    Omit<SettlementPayout, 'nextAtMs'> & {
      readonly id: string
      readonly nextAtMs: number | null
      readonly status: PayoutStatus | null
    }
  >(
    `select settlement_id as id, detail,
        case when detail <> '' then round(date_part('epoch', next_at) * 1000) end as "nextAtMs",
        coalesce(last.id, '') as "payoutId", last.status
      from settlement_payout s left join lateral (
        select p.id, p.status from payout p where p.settlement_id = s.settlement_id order by p.id desc limit 1
      ) last on true
      where settlement_id = any($1)`,
    [settlementIds],
  )
  return new Map(
    rows.map(({ id, nextAtMs, status, detail, ...row }) => {
      const ended = (status && ENDED[status]) ?? ''
      return [id, { ...row, detail: detail || ended, nextAtMs: nextAtMs ?? undefined }]
    }),
  )
}

/**
 * Counts the settlements in live mode since a time that are not paid, because their payout was refused, expired or was sent
 * back, up to `max`. Operators know of those whose payout they rejected or cancelled.
 */
export async function countRefusedSettlements(
  on: Queryable,
  sinceMs: number,
  max: number,
): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from settlement_payout s where settlement_id >= $1 and live and (refusals > 0 and detail <> '' or (
          select p.status in ('EXPIRED', 'RETURNED') from payout p
          where p.settlement_id = s.settlement_id order by p.id desc limit 1))
        limit $2
      ) refused`,
    [firstIdAt('stl', sinceMs), max],
  )
  return rows[0]?.count ?? 0
}

/** The payouts of a settlement, oldest first. */
async function listPayoutsOf(
  { database }: PayoutContext,
  settlementId: string,
): Promise<readonly Payout[]> {
  const { rows } = await database.durablePool.query<PayoutRow>({
    name: 'settlement-payout-payouts',
    text: `select ${PAYOUT_COLUMNS} from payout where settlement_id = $1 order by id limit ${ATTEMPTS_MAX}`,
    values: [settlementId],
  })
  return rows.map(toPayout)
}

async function note(
  { database }: PayoutContext,
  { settlementId, refusals }: Noted,
  { nextInMs, detail, isRefused = false }: Outcome,
): Promise<void> {
  await database.durablePool.query({
    name: 'settlement-payout-change',
    // Another instance may have handled the settlement at the same time, so a refusal counts once.
    text: `update settlement_payout set refusals = $3, detail = $4, next_at = now() + $5 * interval '1 millisecond'
      where settlement_id = $1 and refusals = $2`,
    values: [
      settlementId,
      refusals,
      refusals + (isRefused ? 1 : 0),
      detail,
      nextInMs === 'none' ? null : nextInMs,
    ],
  })
}
