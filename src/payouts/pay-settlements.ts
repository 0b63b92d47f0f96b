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
import { isFinal, type Payout } from './payout.ts'
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

/** How often a settlement is paid out, or found not to be payable, before the service gives up. */
const ATTEMPTS_MAX = 5

/** How long to wait for the result of a payout, for a bank, or for the end of a pause. */
const LOOK_AGAIN_MS = 5 * MINUTE_MS

const EVERY_MS = 2_000

/** How many settlements one turn of one instance handles. */
const DUE_MAX = 20

/**
 * Pays what settlements make available to the account that the rules of the business name (`settle_to`).
 *
 * A follower of the event log notes each completed settlement, and every instance handles what is due. A settlement has
 * one payout at a time: its reference follows from the settlement and the number of its failures, and is unique. So it is
 * paid once, wherever an instance stops.
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

/** Notes the settlements that complete while their business has a `settle_to`. */
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

/** Notes the settlements of the last days, which the events that are missing may have announced. */
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
  /** How often nothing could be requested. */
  readonly refusals: number
  /** Why it is not paid out; empty: nothing is wrong. */
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
    // A paid one is done, and so is one that an operator cancelled.
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

/** Requests a payout of a settlement. @returns when the settlement is looked at again */
async function request(context: PayoutContext, noted: Noted, reference: string): Promise<Outcome> {
  const { businessId, live, netMinor, settlementId } = noted
  const policy = await getPolicy(context, businessId)
  if (policy.settleTo === null) return { nextInMs: 'none', detail: 'The rules name no account now' }
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
      ...{ businessId, live, reference, settlementId, resolved },
      purpose: 'SETTLEMENT',
      source: 'available',
      // Known once the balance is locked.
      amountMinor: 0n,
      narration: `Settlement ${settlementId}`,
      requestedBy: 'system',
      approval: await restoreReason(context),
      isCharged: true,
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

/**
 * Why a settlement is not paid out by itself after a restore or a failover: one that was settled and paid by the lost history
 * settles again under another id, so the bank would not know the second payout for the first. Empty: there was none in the
 * last day.
 */
async function restoreReason({ database }: PayoutContext): Promise<string> {
  const { rows } = await database.durablePool.query<{ is_repeated: boolean }>(
    'select coalesce(now() < repeats_until, false) as is_repeated from payout_sender',
  )
  return rows[0]?.is_repeated
    ? 'the database was restored or failed over: compare it with what the bank sent out since'
    : ''
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
 * What is paid of a settlement: its net, or less if the floor, the fee and the duty leave less of what is available.
 *
 * @returns zero or less: nothing
 */
export function payableOf(
  { floorMinor, fees, chargeDuty }: Pick<PayoutPolicy, 'floorMinor' | 'fees' | 'chargeDuty'>,
  { netMinor, availableMinor }: { readonly netMinor: bigint; readonly availableMinor: bigint },
  day: string,
): bigint {
  const room = availableMinor - floorMinor
  let amountMinor = netMinor < room ? netMinor : room
  // A smaller amount may have a larger fee, by another band.
  while (amountMinor > 0n) {
    const dutyMinor = chargeDuty ? dutyOf(amountMinor, day) : 0n
    const left = room - feeOf(fees, amountMinor) - dutyMinor
    if (amountMinor <= left) return amountMinor
    amountMinor = left
  }
  return 0n
}

/** How settlements are paid out; those that are not to be paid out are left out. */
export async function findSettlementPayouts(
  on: Queryable,
  settlementIds: readonly string[],
): Promise<ReadonlyMap<string, SettlementPayout>> {
  const { rows } = await on.query<
    Omit<SettlementPayout, 'nextAtMs'> & { readonly id: string; readonly nextAtMs: number | null }
  >(
    `select settlement_id as id, detail,
        case when detail <> '' then round(date_part('epoch', next_at) * 1000) end as "nextAtMs",
        coalesce((select p.id from payout p where p.settlement_id = s.settlement_id order by p.id desc limit 1), '')
          as "payoutId"
      from settlement_payout s where settlement_id = any($1)`,
    [settlementIds],
  )
  return new Map(
    rows.map(({ id, nextAtMs, ...row }) => [id, { ...row, nextAtMs: nextAtMs ?? undefined }]),
  )
}

/** Counts the settlements in live mode since a time that were refused, and are not paid out, up to a bound. */
export async function countRefusedSettlements(
  on: Queryable,
  sinceMs: number,
  max: number,
): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from settlement_payout where settlement_id >= $1 and live and refusals > 0 and detail <> '' limit $2
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
    // Another instance may have handled it at the same time: a refusal counts once.
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
