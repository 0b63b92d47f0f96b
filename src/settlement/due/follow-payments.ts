import type { PoolClient } from 'pg'
import type { Logger } from 'pino'
import { followLog, type LogFollower } from '../../events/follow-log.ts'
import { lookUpOutbox, selectEventsBetween } from '../../events/log.sql.ts'
import type { Database } from '../../postgres/orm.ts'
import { CREDITS_PAYMENT } from '../../transactions/transaction.sql.ts'
import { lockDue, refreshDue, requestSweep } from './due-index.ts'

/** Keeps the index of what is due, as a follower of the log. A sweep adds what it may lack. */
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
export function followPayments({
  database: { pool },
  log,
}: {
  readonly database: Database
  readonly log: Logger
}): Promise<boolean> {
  return followLog({ pool, log }, DUE)
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
        ${selectEventsBetween('$1', '$2')}
      ), unlisted as (
        select n.business_id, n.live
        from (select business_id, live, array_agg(outbox_seq) as seqs from next group by 1, 2) n
        left join lateral (select true as found from settlement_due
          where business_id = n.business_id and live = n.live offset 0) d on true
        cross join lateral (select from unnest(n.seqs) as event(seq) ${lookUpOutbox('event.seq')}
          where o.kind ${CREDITS_PAYMENT} limit 1) payment
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
