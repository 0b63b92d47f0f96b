import type { Queryable } from '../postgres/in-transaction.ts'
import { SETTLEMENT_INTERVAL_MS } from './schedule.ts'
import type { BalanceKey } from './settlement.ts'
import { readCalendars } from './terms.ts'

/** When a balance with unsettled payments is due. Times in epoch milliseconds. */
export interface Due extends BalanceKey {
  /** When its oldest unsettled payment was recorded. */
  readonly recordedAtMs: number
  readonly dueAtMs: number
  /** When the job settles it. */
  readonly nextAtMs: number
}

/**
 * Recomputes the rows of some balances. The caller holds the lock of the index.
 *
 * @param notBeforeMs the job does not settle the balances before this time; absent: before they are due
 */
export async function refreshDue(
  client: Queryable,
  keys: readonly BalanceKey[],
  notBeforeMs = 0,
): Promise<void> {
  const due = (await computeDue(client, keys)).map((each) => {
    return { ...each, nextAtMs: Math.max(each.nextAtMs, notBeforeMs) }
  })
  const isDue = new Set(due.map(nameOf))
  const settled = keys.filter((key) => !isDue.has(nameOf(key)))
  if (settled.length > 0) await deleteDue(client, settled)
  if (due.length > 0) await upsertDue(client, due)
}

/**
 * Returns the rows that some balances should have; a balance without unsettled payments has none. Payments of a
 * running settlement do not count: it computes its row when it completes.
 */
export async function computeDue(client: Queryable, keys: readonly BalanceKey[]): Promise<Due[]> {
  const { rows } = await client.query<{
    business_id: string
    live: boolean
    recorded_at_ms: number
    started_at_ms: number | null
  }>(
    `select k.business_id, k.live, round(date_part('epoch', u.occurred_at) * 1000) as recorded_at_ms,
        round(date_part('epoch', s.started_at) * 1000) as started_at_ms
      from unnest($1::text[], $2::boolean[]) as k(business_id, live)
      left join lateral (
        select to_sequence, started_at from settlement
        where business_id = k.business_id and live = k.live order by to_sequence desc limit 1
      ) s on true
      cross join lateral (
        -- The outbox row and transaction of each event are looked up one by one, up to the first unsettled payment.
        select occurred_at from (
          (select a.business_sequence, a.occurred_at from archived_entry a
            cross join lateral (select * from transaction where id = a.subject_id offset 0) t
            where a.business_id = k.business_id and a.live = k.live
              and a.business_sequence > coalesce(s.to_sequence, -(2::numeric ^ 62)::bigint)
              and a.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
              and t.status = 'SUCCESS' and not exists (select from ledger_posting p
                where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
            order by a.business_sequence limit 1)
          union all
          (select l.business_sequence, o.occurred_at from event_log l
            cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
            cross join lateral (select * from transaction where id = o.subject_id offset 0) t
            where l.business_id = k.business_id and l.live = k.live
              and l.business_sequence > coalesce(s.to_sequence, -(2::numeric ^ 62)::bigint)
              and o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
              and t.status = 'SUCCESS' and not exists (select from ledger_posting p
                where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
              and ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
              -- The row of an archived event remains until its partition is dropped.
              and l.position > (select archived from event_retention where id = 1)
            order by l.business_sequence limit 1)
        ) event order by business_sequence limit 1
      ) u`,
    toArrays(keys),
  )
  const calendarOf = await readCalendars(client, new Set(rows.map((row) => row.business_id)))
  return rows.map((row) => {
    const { calendar } = calendarOf(row.business_id)
    const dueAtMs = calendar.settlesAt(row.recorded_at_ms)
    const againAtMs = row.started_at_ms === null ? 0 : row.started_at_ms + SETTLEMENT_INTERVAL_MS
    return {
      businessId: row.business_id,
      live: row.live,
      recordedAtMs: row.recorded_at_ms,
      dueAtMs,
      nextAtMs: Math.max(dueAtMs, againAtMs),
    }
  })
}

export async function upsertDue(client: Queryable, due: readonly Due[]): Promise<void> {
  await client.query(
    `insert into settlement_due (business_id, live, due_at, next_at, failures)
      select business_id, live, due_at, next_at, 0
      from unnest($1::text[], $2::boolean[], $3::timestamptz[], $4::timestamptz[])
        as d(business_id, live, due_at, next_at)
      on conflict (business_id, live) do update
        set due_at = excluded.due_at, next_at = excluded.next_at, failures = 0`,
    [
      ...toArrays(due),
      due.map((each) => new Date(each.dueAtMs)),
      due.map((each) => new Date(each.nextAtMs)),
    ],
  )
}

async function deleteDue(client: Queryable, keys: readonly BalanceKey[]): Promise<void> {
  await client.query(
    `delete from settlement_due d using unnest($1::text[], $2::boolean[]) as k(business_id, live)
      where d.business_id = k.business_id and d.live = k.live`,
    toArrays(keys),
  )
}

/** The values of `unnest($1::text[], $2::boolean[])`. */
export function toArrays(keys: readonly BalanceKey[]): [string[], boolean[]] {
  return [keys.map((key) => key.businessId), keys.map((key) => key.live)]
}

/** A text that identifies a balance. */
export function nameOf({ businessId, live }: BalanceKey): string {
  return `${live ? 'live' : 'test'} ${businessId}`
}

/**
 * Locks the index of due balances until the commit, so that no balance is lost from it:
 *
 * - `exclusive`: the follower, the sweep, and changes of terms and holidays, until their commit;
 * - `shared`: a caller that replaces the row of one balance, because a settlement completed or nothing was due.
 *
 * Recompute a row after taking the lock, in a later statement; otherwise we could delete a row that the follower
 * relied on, or compute a row from outdated terms. Rows that are written concurrently under the shared lock can only be
 * due too early, which the job corrects.
 *
 * Take this lock after all others except the row locks of the index, so that its holder never waits for a settlement.
 */
export async function lockDue(client: Queryable, mode: 'exclusive' | 'shared'): Promise<void> {
  await client.query(
    mode === 'shared'
      ? "select pg_advisory_xact_lock_shared(hashtextextended('index of due settlements', 0))"
      : "select pg_advisory_xact_lock(hashtextextended('index of due settlements', 0))",
  )
}

/**
 * Restarts the sweep of the index, with the next run of the job: due times have changed, or events are
 * missing. The caller holds the exclusive lock of the index.
 */
export async function requestSweep(client: Queryable): Promise<void> {
  await client.query(
    `update settlement_sweep set next_at = '-infinity', after_business_id = '', after_live = false,
      is_expected = true where id = 1`,
  )
}
