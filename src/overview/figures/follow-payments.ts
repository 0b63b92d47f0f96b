import type { PoolClient } from 'pg'
import type { Logger } from 'pino'
import { MOVES_MONEY } from '../../events/balance-changes.sql.ts'
import { followLog, type LogFollower } from '../../events/follow-log.ts'
import { lookUpOutbox, selectEventsBetween } from '../../events/log.sql.ts'
import type { Database } from '../../postgres/orm.ts'
import { lookUpTransaction } from '../../transactions/transaction.sql.ts'

interface Dependencies {
  readonly database: Pick<Database, 'pool'>
  readonly log: Logger
}

/** The figures as what follows the log: an event that is set aside is missing in them. */
export const FIGURES: LogFollower = { name: 'figures', lock, take: countPayments }

/**
 * Adds the payments and reversals of the log since the last call to the figures of their hours. Any instance may call
 * it; a lock admits one at a time.
 *
 * @returns whether it reached the end of the log; false also while another instance counts
 */
export function followPayments(
  { database: { pool }, log }: Dependencies,
  signal?: AbortSignal,
): Promise<boolean> {
  return followLog({ pool, log }, FIGURES, signal)
}

async function lock(client: PoolClient): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>(
    "select pg_try_advisory_xact_lock(hashtextextended('payment hours', 0)) as held",
  )
  return rows[0]?.held ?? false
}

const SUMS = 'payments, amount_minor, reversals, reversed_minor'

/** @returns how many events there were */
async function countPayments(client: PoolClient, after: bigint, upTo: bigint): Promise<bigint> {
  // Rows are written in the order of their key. The lock lets no other transaction write any.
  const { rows } = await client.query<{ events: string }>({
    name: 'payment-hour-count',
    text: `with next as materialized (
        ${selectEventsBetween('$1', '$2')}
      ), counted as (
        select n.business_id, n.live, t.bank, date_trunc('hour', o.occurred_at, 'UTC') as hour,
          count(*) filter (where not reversed) as payments,
          coalesce(sum(t.amount_minor) filter (where not reversed), 0) as amount_minor,
          count(*) filter (where reversed) as reversals,
          coalesce(sum(t.amount_minor) filter (where reversed), 0) as reversed_minor,
          max(o.occurred_at) filter (where not reversed) as last_at
        from next n ${lookUpOutbox('n.outbox_seq')}
        cross join lateral (select o.kind = 'PAYMENT_REVERSED' as reversed) r
        ${lookUpTransaction('o.subject_id')}
        where o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED') and ${MOVES_MONEY}
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
      select count(*) as events from next`,
    values: [after, upTo],
  })
  return BigInt(rows[0]?.events ?? 0)
}
