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

/** The time between the end of a sweep and the start of the next one. */
const EVERY_MS = HOUR_MS

/** The most balances that one transaction checks, and the most transactions of one call. */
const BALANCES_MAX = 200
const PAGES_MAX = 20

/** The follower has certainly read the events of payments that are older than this. */
const FOLLOWED_AFTER_MS = 60_000

/**
 * Compares the index of due balances with all balances, some pages at each call, and repairs it. A sweep runs once an hour,
 * in case a row was lost, and when `requestSweep` has requested it. One instance sweeps at a time. A repair without
 * a known reason is logged.
 *
 * @returns whether no sweep is due any more
 */
export async function sweepDue(runtime: Runtime): Promise<boolean> {
  const { database, clock, log } = runtime
  for (let page = 0; page < PAGES_MAX; page++) {
    const nowMs = clock.now()
    if (!(await isSweepDue(database.durablePool, nowMs))) return true
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
  return !(await isSweepDue(database.durablePool, clock.now()))
}

async function isSweepDue(client: Queryable, nowMs: number): Promise<boolean> {
  const { rows } = await client.query<{ is_due: boolean }>({
    name: 'settlement-sweep-due',
    text: 'select next_at <= $1 as is_due from settlement_sweep where id = 1',
    values: [new Date(nowMs)],
  })
  return rows[0]?.is_due ?? false
}

/** The position of a due sweep; undefined if another instance has just completed the sweep. */
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
    // A loose index scan finds the keys; a look-up finds the newest sums of each key.
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

/** Corrects the rows of some balances. @returns the balances whose row was missing or due too late */
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
  // A correct row is not rewritten, so it keeps its failure count.
  const wrong = due.filter((each) => stored.get(nameOf(each)) !== each.dueAtMs)
  if (wrong.length > 0) await upsertDue(client, wrong)
  return wrong.filter((each) => (stored.get(nameOf(each)) ?? Infinity) > each.dueAtMs)
}

/** The follower of the log that maintains the index of due balances. After a gap, a sweep adds the missing balances. */
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
 * Adds the balances with new payments to the index of due balances. A balance that is already in the index
 * has an older payment, so only the first payment after a settlement writes a row. Any instance may call
 * this; the lock of the index admits one instance at a time.
 *
 * @returns whether it reached the end of the log
 */
export function followPayments(runtime: Runtime): Promise<boolean> {
  return followLog(runtime, DUE)
}

/** Adds the balances that have payments among some events and are not in the index. @returns the number of events */
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
