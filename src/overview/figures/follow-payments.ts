import type { PoolClient } from 'pg'
import type { Logger } from 'pino'
import { joinOutbox, selectEventsAfter } from '../../events/log.sql.ts'
import { type LogState, readLogState } from '../../events/log-state.ts'
import { inTransaction, type Queryable } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { lookUpTransaction } from '../../transactions/transaction.sql.ts'

/** The most events of one transaction, and the most transactions of one call. */
const EVENTS_MAX = 2_000
const TURNS_MAX = 500

/** Up to where the payments of the log are counted, and the epoch in which it was read. */
interface Follower {
  readonly position: bigint
  readonly epoch: number
}

interface Dependencies {
  readonly database: Pick<Database, 'pool'>
  readonly log: Logger
}

/**
 * Adds the payments and reversals of the log since the last call to the figures of their hours. Figures and position
 * are written in one transaction, so each event is counted once, wherever an instance stops. Any instance may call
 * it; a lock admits one at a time.
 *
 * @returns whether it reached the end of the log; false also while another instance counts
 */
export async function followPayments(
  { database: { pool }, log }: Dependencies,
  signal?: AbortSignal,
): Promise<boolean> {
  for (let turn = 0; turn < TURNS_MAX && !signal?.aborted; turn++) {
    const [state, follower] = await Promise.all([readLogState(pool), readFollower(pool)])
    if (follower.epoch === state.epoch && follower.position >= state.end.position) return true
    if (!(await inTransaction(pool, (client) => followNext(client, state, log)))) return false
  }
  return false
}

export async function readFollower(client: Queryable): Promise<Follower> {
  const { rows } = await client.query<{ position: string; epoch: number }>({
    name: 'payment-hour-follower',
    text: 'select position, epoch from payment_hour_follower order by position desc limit 1',
  })
  const row = rows[0]
  if (row === undefined)
    throw new Error('the row of the follower, which the first migration inserts, is missing')
  return { position: BigInt(row.position), epoch: row.epoch }
}

/** @returns false: another instance counts */
async function followNext(client: PoolClient, state: LogState, log: Logger): Promise<boolean> {
  // Later statements of the transaction see what the last holder of the lock has committed.
  const { rows } = await client.query<{ held: boolean }>(
    "select pg_try_advisory_xact_lock(hashtextextended('payment hours', 0)) as held",
  )
  if (!rows[0]?.held) return false
  const follower = await readFollower(client)
  // Another instance was here since the state was read.
  if (follower.epoch > state.epoch) return true
  if (follower.epoch < state.epoch) {
    await enterEpoch(client, follower, state, log)
    return true
  }
  const { events, last } = await countNext(client, follower.position)
  if (last === undefined) return true
  const missing = last - follower.position - events
  if (missing > 0n) {
    const after = follower.position
    log.warn({ after, missing }, 'events were deleted before the figures of payments counted them')
  }
  await moveFollower(client, follower, { position: last, epoch: follower.epoch })
  return true
}

/**
 * The log goes on after a failover or a restore. Figures and position were lost or restored together with the log,
 * so what is counted are events of the log that it has now.
 */
async function enterEpoch(
  client: PoolClient,
  follower: Follower,
  { epoch, end }: LogState,
  log: Logger,
): Promise<void> {
  const position = follower.position < end.position ? follower.position : end.position
  if (position < follower.position) {
    const lost = follower.position - position
    log.warn({ lost }, 'the figures of payments contain events that the log has lost')
  }
  await moveFollower(client, follower, { position, epoch })
}

const SUMS = 'payments, amount_minor, reversals, reversed_minor'

/** Counts the next events. @returns how many there were, and the position of the last one */
async function countNext(client: PoolClient, after: bigint) {
  // Not prepared: a plan that was made while the tables were empty would scan them. Rows are written in the order of
  // their key. The lock lets no other transaction write any.
  const { rows } = await client.query<{ events: string; last: string | null }>(
    `with next as materialized (
        ${selectEventsAfter('$1', `${EVENTS_MAX}`)}
      ), counted as (
        select n.business_id, n.live, t.bank, date_trunc('hour', o.occurred_at, 'UTC') as hour,
          count(*) filter (where not reversed) as payments,
          coalesce(sum(t.amount_minor) filter (where not reversed), 0) as amount_minor,
          count(*) filter (where reversed) as reversals,
          coalesce(sum(t.amount_minor) filter (where reversed), 0) as reversed_minor,
          max(o.occurred_at) filter (where not reversed) as last_at
        from next n ${joinOutbox('n.outbox_seq')}
        cross join lateral (select o.kind = 'PAYMENT_REVERSED' as reversed) r
        ${lookUpTransaction('o.subject_id')}
        where o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED')
        group by 1, 2, 3, 4
      ), added as (
        insert into payment_hour as h (business_id, live, bank, hour, ${SUMS}, last_at)
        select business_id, live, bank, hour, ${SUMS}, last_at from counted
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
      select count(*) as events, max(position) as last from next`,
    [after],
  )
  const [row] = rows
  return {
    events: BigInt(row?.events ?? 0),
    last: row?.last === null || row === undefined ? undefined : BigInt(row.last),
  }
}

async function moveFollower(client: PoolClient, from: Follower, to: Follower): Promise<void> {
  await client.query('delete from payment_hour_follower where position = $1', [from.position])
  await client.query('insert into payment_hour_follower (position, epoch) values ($1, $2)', [
    to.position,
    to.epoch,
  ])
}
