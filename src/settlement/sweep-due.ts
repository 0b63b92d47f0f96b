import type { PoolClient } from 'pg'
import { HOUR_MS } from '../core/durations.ts'
import { followLog, type LogFollower } from '../events/follow-log.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import {
  computeDue,
  type Due,
  lockDue,
  nameOf,
  refreshDue,
  requestSweep,
  toArrays,
  upsertDue,
} from './due-index.ts'
import type { BalanceKey } from './settlement.ts'

/** Between the end of a sweep and the next one. */
const EVERY_MS = HOUR_MS

/** The balances of one transaction, and the transactions of one call. */
const BALANCES_MAX = 200
const PAGES_MAX = 20

/** A payment that is older than this has its number, and the follower has read it. */
const FOLLOWED_AFTER_MS = 60_000

/**
 * Compares the index of what is due with all balances, some pages at each call, and repairs it: once an hour, in case a
 * row was lost, and when `requestSweep` has requested it. One instance does it at a time. A repair without a
 * known reason is logged.
 */
export async function sweepDue(runtime: Runtime): Promise<void> {
  const { database, clock, log } = runtime
  for (let page = 0; page < PAGES_MAX; page++) {
    const nowMs = clock.now()
    if (!(await isSweepDue(database.durablePool, nowMs))) return
    const isFollowed = await followPayments(runtime)
    await inTransaction(database.durablePool, async (client) => {
      await lockDue(client, 'exclusive')
      const sweep = await readSweep(client, nowMs)
      if (sweep === undefined) return
      const { keys, isLast } = await listPending(client, sweep.after)
      const repaired = await repair(client, keys)
      await moveSweep(client, isLast ? undefined : keys.at(-1), nowMs + EVERY_MS)
      if (sweep.isExpected || !isFollowed) return
      const lost = repaired.filter((each) => each.recordedAtMs < nowMs - FOLLOWED_AFTER_MS)
      if (lost.length === 0) return
      log.error(
        { balances: lost.map(nameOf) },
        'balances were missing in the index of due settlements, or due too late: repaired',
      )
    })
  }
}

async function isSweepDue(client: Queryable, nowMs: number): Promise<boolean> {
  const { rows } = await client.query<{ is_due: boolean }>({
    name: 'settlement-sweep-due',
    text: 'select next_at <= $1 as is_due from settlement_sweep where id = 1',
    values: [new Date(nowMs)],
  })
  return rows[0]?.is_due ?? false
}

/** The place of a sweep that is due; undefined if another instance has just completed it. */
async function readSweep(client: PoolClient, nowMs: number) {
  const { rows } = await client.query<{
    after_business_id: string
    after_live: boolean
    is_expected: boolean
  }>(
    `select after_business_id, after_live, is_expected from settlement_sweep
      where id = 1 and next_at <= $1`,
    [new Date(nowMs)],
  )
  const row = rows[0]
  if (row === undefined) return undefined
  const after: BalanceKey = { businessId: row.after_business_id, live: row.after_live }
  return { after, isExpected: row.is_expected }
}

/** @param after undefined: the sweep is complete */
async function moveSweep(
  client: PoolClient,
  after: BalanceKey | undefined,
  againAtMs: number,
): Promise<void> {
  if (after === undefined) {
    await client.query(
      `update settlement_sweep set next_at = $1, after_business_id = '', after_live = false,
        is_expected = false where id = 1`,
      [new Date(againAtMs)],
    )
  } else {
    await client.query(
      'update settlement_sweep set after_business_id = $1, after_live = $2 where id = 1',
      [after.businessId, after.live],
    )
  }
}

/** One page of the balances with pending money, ordered by business and mode. */
async function listPending(client: PoolClient, after: BalanceKey) {
  const { rows } = await client.query<{ business_id: string; live: boolean }>({
    name: 'settlement-pending',
    // Each key is found in the index from the one before, and the newest sums of each by a look-up.
    text: `with recursive key as (
        (select business_id, live from event_business_counter
          where (business_id, live) > ($1, $2::boolean) order by business_id, live limit 1)
        union all
        select n.* from key k cross join lateral (
          select business_id, live from event_business_counter
          where (business_id, live) > (k.business_id, k.live) order by business_id, live limit 1) n
      )
      select b.business_id, b.live from key k cross join lateral (
        select * from event_business_counter where business_id = k.business_id and live = k.live
        order by last_sequence desc limit 1) b
      where b.pending_minor > 0 limit $3`,
    values: [after.businessId, after.live, BALANCES_MAX],
  })
  const keys = rows.map(({ business_id, live }): BalanceKey => ({ businessId: business_id, live }))
  return { keys, isLast: keys.length < BALANCES_MAX }
}

/** Corrects the rows of some balances. @returns the balances that were missing, or due too late */
async function repair(client: PoolClient, keys: readonly BalanceKey[]): Promise<readonly Due[]> {
  if (keys.length === 0) return []
  const due = await computeDue(client, keys)
  const { rows } = await client.query<{ business_id: string; live: boolean; due_at_ms: number }>(
    `select d.business_id, d.live, round(date_part('epoch', d.due_at) * 1000) as due_at_ms
      from unnest($1::text[], $2::boolean[]) as k(business_id, live)
      cross join lateral (select * from settlement_due
        where business_id = k.business_id and live = k.live offset 0) d`,
    toArrays(keys),
  )
  const stored = new Map(
    rows.map((row) => [nameOf({ businessId: row.business_id, live: row.live }), row.due_at_ms]),
  )
  // A row that is right keeps its failures.
  const wrong = due.filter((each) => stored.get(nameOf(each)) !== each.dueAtMs)
  if (wrong.length > 0) await upsertDue(client, wrong)
  return wrong.filter((each) => (stored.get(nameOf(each)) ?? Infinity) > each.dueAtMs)
}

/** The index of what is due, which follows the log. A sweep adds what it may lack. */
const DUE: LogFollower = {
  name: 'settlement',
  async lock(client) {
    await lockDue(client, 'exclusive')
    return true
  },
  take: addUnlisted,
  onGap: requestSweep,
}

/**
 * Adds the balances that have payments since the last call to the index of what is due. A balance that
 * is already in it has an older payment, so this writes a row for the first payment after a settlement
 * only. Any instance may call it; the lock of the index admits one at a time.
 *
 * @returns whether it reached the end of the log
 */
export function followPayments(runtime: Runtime): Promise<boolean> {
  return followLog(runtime, DUE)
}

/** Adds the balances with payments among some events that the index does not have. @returns how many events there were */
async function addUnlisted(client: PoolClient, after: bigint, upTo: bigint): Promise<bigint> {
  const { rows } = await client.query<{
    events: string
    business_id: string | null
    live: boolean
  }>({
    name: 'settlement-due-unlisted',
    text: `with next as materialized (
        select position, outbox_seq, business_id, live from event_log
        where position > $1 and position <= $2
      ), unlisted as (
        select n.business_id, n.live
        from (select business_id, live, array_agg(outbox_seq) as seqs from next group by 1, 2) n
        left join lateral (select true as found from settlement_due
          where business_id = n.business_id and live = n.live offset 0) d on true
        cross join lateral (select from unnest(n.seqs) as event(seq)
          cross join lateral (select * from outbox where seq = event.seq offset 0) o
          where o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED') limit 1) payment
        where d.found is null
      )
      select r.events, u.business_id, u.live
      from (select count(*) as events from next) r left join unlisted u on true`,
    values: [after, upTo],
  })
  const unlisted = rows.flatMap(({ business_id, live }) =>
    business_id === null ? [] : [{ businessId: business_id, live }],
  )
  if (unlisted.length > 0) await refreshDue(client, unlisted)
  return BigInt(rows[0]?.events ?? 0)
}
