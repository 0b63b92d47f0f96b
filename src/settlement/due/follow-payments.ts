import type { PoolClient } from 'pg'
import type { Logger } from 'pino'
import { joinOutbox, selectEventsAfter } from '../../events/log.sql.ts'
import { type LogState, readLogState } from '../../events/log-state.ts'
import { inTransaction, type Queryable } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { CREDITS_PAYMENT } from '../../transactions/transaction.sql.ts'
import type { BalanceKey } from '../settlement.ts'
import { lockDue } from './lock-due.ts'
import { refreshDue } from './refresh-due.ts'
import { requestSweep } from './request-sweep.ts'

/** The most events of one transaction, and the most transactions of one call. */
const EVENTS_MAX = 2_000
const TURNS_MAX = 500

/** Up to where the payments of the log are in the index, and the epoch in which it was read. */
interface Follower {
  readonly position: bigint
  readonly epoch: number
}

/**
 * Adds the balances that have payments since the last call to the index of what is due. A balance that
 * is already in it has an older payment, so this writes a row for the first payment after a settlement
 * only. Any instance may call it; the lock of the index admits one at a time.
 *
 * @returns whether it reached the end of the log
 */
export async function followPayments({
  database: { pool },
  log,
}: {
  readonly database: Database
  readonly log: Logger
}): Promise<boolean> {
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const [state, follower] = await Promise.all([readLogState(pool), readFollower(pool)])
    if (follower.epoch === state.epoch && follower.position >= state.end.position) return true
    await inTransaction(pool, (client) => followNext(client, state, log))
  }
  return false
}

export async function readFollower(client: Queryable): Promise<Follower> {
  const { rows } = await client.query<{ position: string; epoch: number }>({
    name: 'settlement-follower',
    text: 'select position, epoch from settlement_follower order by position desc limit 1',
  })
  const row = rows[0]
  if (row === undefined)
    throw new Error('the row of the follower, which the first migration inserts, is missing')
  return { position: BigInt(row.position), epoch: row.epoch }
}

async function followNext(client: PoolClient, state: LogState, log: Logger): Promise<void> {
  await lockDue(client, 'exclusive')
  const { follower, events, last, unlisted } = await readNext(client)
  // Another instance was here since the state was read.
  if (follower.epoch > state.epoch) return
  if (follower.epoch < state.epoch) {
    // The log goes on after a failover or a restore. A sweep makes sure of what came before.
    const { end } = state
    const position = follower.position < end.position ? follower.position : end.position
    await moveFollower(client, follower, { position, epoch: state.epoch })
    await requestSweep(client)
    return
  }
  if (last === undefined) return
  const missing = last - follower.position - events
  if (missing > 0n) {
    const after = follower.position
    log.warn({ after, missing }, 'events were deleted before settlement read them')
    await requestSweep(client)
  }
  if (unlisted.length > 0) await refreshDue(client, unlisted)
  await moveFollower(client, follower, { position: last, epoch: follower.epoch })
}

/** The next events: their positions, and the balances with payments that the index does not have. */
async function readNext(client: PoolClient) {
  const { rows } = await client.query<{
    position: string
    epoch: number
    events: string
    last: string | null
    business_id: string | null
    live: boolean
  }>(
    // Not prepared: a plan that was made while the index was empty would scan it.
    `with follower as materialized (
        select position, epoch from settlement_follower order by position desc limit 1
      ), next as materialized (
        ${selectEventsAfter('(select position from follower)', `${EVENTS_MAX}`)}
      ), unlisted as (
        select n.business_id, n.live
        from (select business_id, live, array_agg(outbox_seq) as seqs from next group by 1, 2) n
        left join lateral (select true as found from settlement_due
          where business_id = n.business_id and live = n.live offset 0) d on true
        cross join lateral (select from unnest(n.seqs) as event(seq) ${joinOutbox('event.seq')}
          where o.kind ${CREDITS_PAYMENT} limit 1) payment
        where d.found is null
      )
      select f.position, f.epoch, r.events, r.last, u.business_id, u.live
      from follower f
      cross join (select count(*) as events, max(position) as last from next) r
      left join unlisted u on true`,
  )
  const row = rows[0]
  if (row === undefined) throw new Error('the row of the follower is missing')
  const unlisted = rows.flatMap(({ business_id, live }): BalanceKey[] =>
    business_id === null ? [] : [{ businessId: business_id, live }],
  )
  return {
    follower: { position: BigInt(row.position), epoch: row.epoch },
    events: BigInt(row.events),
    last: row.last === null ? undefined : BigInt(row.last),
    unlisted,
  }
}

async function moveFollower(client: PoolClient, from: Follower, to: Follower): Promise<void> {
  await client.query('delete from settlement_follower where position = $1', [from.position])
  await client.query('insert into settlement_follower (position, epoch) values ($1, $2)', [
    to.position,
    to.epoch,
  ])
}
