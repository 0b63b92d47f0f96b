import type { PoolClient } from 'pg'
import { DAY_MS } from '../core/durations.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { followLog, type LogFollower, readPlace } from '../events/follow-log.ts'
import { readLogState } from '../events/log-state.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'

/** How long figures are kept. They include the same hour of last year. */
const RETENTION_MS = 400 * DAY_MS

const DELETE_EVERY_MS = 600_000

const DELETED_MAX = 5_000

/** Counts the payments of the event log by the hour, and deletes old figures. */
export function createFiguresJob(runtime: Runtime): Pick<Loop, 'start' | 'stop'> {
  const { database, safeClock, log } = runtime
  const counting = createLoop({
    name: 'figures of payments',
    log,
    turn: async (signal) => void (await followPayments(runtime, signal)),
  })
  const retention = createLoop({
    name: 'retention of figures',
    log,
    everyMs: DELETE_EVERY_MS,
    async turn() {
      const deleted = await deleteOldHours(database.durablePool, safeClock.now() - RETENTION_MS)
      return deleted === DELETED_MAX ? 0 : undefined
    },
  })
  return {
    start() {
      counting.start()
      retention.start()
    },
    stop: async () => void (await Promise.all([counting.stop(), retention.stop()])),
  }
}

/** @returns how many rows it deleted */
export async function deleteOldHours(on: Queryable, beforeMs: number): Promise<number> {
  const { rowCount } = await on.query({
    name: 'payment-hour-delete',
    text: `delete from payment_hour where ctid = any (array(
      select ctid from payment_hour where hour < $1 limit ${DELETED_MAX}))`,
    values: [new Date(beforeMs)],
  })
  return rowCount ?? 0
}

/** How many events of the log the figures do not contain yet. */
export async function countUncounted(on: Queryable): Promise<bigint> {
  const [{ end }, { position }] = await Promise.all([readLogState(on), readPlace(on, FIGURES)])
  return end.position > position ? end.position - position : 0n
}

/** The follower of the log that counts the figures. An event that was set aside is missing in them. */
const FIGURES: LogFollower = { name: 'figures', lock, take: countPayments }

/**
 * Adds the payments and reversals of the log since the last call to the figures of their hours. Any instance may call
 * it; a lock admits one instance at a time.
 *
 * @returns whether it reached the end of the log; also false while another instance counts
 */
export function followPayments(runtime: Runtime, signal?: AbortSignal): Promise<boolean> {
  return followLog(runtime, FIGURES, signal)
}

async function lock(client: PoolClient): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>(
    "select pg_try_advisory_xact_lock(hashtextextended('payment hours', 0)) as held",
  )
  return rows[0]?.held ?? false
}

/** @returns how many events there were */
async function countPayments(client: PoolClient, after: bigint, upTo: bigint): Promise<bigint> {
  // The lock keeps other transactions from writing rows. Rows are inserted in key order.
  const { rows } = await client.query<{ events: string }>({
    name: 'payment-hour-count',
    text: `with next as materialized (
        select position, outbox_seq, business_id, live from event_log
        where position > $1 and position <= $2
      ), counted as (
        select n.business_id, n.live, t.bank, date_trunc('hour', o.occurred_at, 'UTC') as hour,
          count(*) filter (where not reversed) as payments,
          coalesce(sum(t.amount_minor) filter (where not reversed), 0) as amount_minor,
          count(*) filter (where reversed) as reversals,
          coalesce(sum(t.amount_minor) filter (where reversed), 0) as reversed_minor,
          max(o.occurred_at) filter (where not reversed) as last_at
        from next n cross join lateral (select * from outbox where seq = n.outbox_seq offset 0) o
        cross join lateral (select o.kind = 'PAYMENT_REVERSED' as reversed) r
        cross join lateral (select * from transaction where id = o.subject_id offset 0) t
        where o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED')
          and ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
        group by 1, 2, 3, 4
      ), added as (
        insert into payment_hour as h (business_id, live, bank, hour, payments, amount_minor,
          reversals, reversed_minor, last_at)
        select business_id, live, bank, hour, payments, amount_minor, reversals, reversed_minor, last_at
        from counted
        union all
        select '', live, bank, hour, sum(payments), sum(amount_minor), sum(reversals),
          sum(reversed_minor), max(last_at) from counted group by live, bank, hour
        order by business_id, live, bank, hour
        on conflict (business_id, live, bank, hour) do update set
          payments = h.payments + excluded.payments,
          amount_minor = h.amount_minor + excluded.amount_minor,
          reversals = h.reversals + excluded.reversals,
          reversed_minor = h.reversed_minor + excluded.reversed_minor,
          last_at = greatest(h.last_at, excluded.last_at)
      )
      select count(*) as events from next`,
    values: [after, upTo],
  })
  return BigInt(rows[0]?.events ?? 0)
}
