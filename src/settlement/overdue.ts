import type { Pool } from 'pg'
import type { BusinessScope } from '../auth/caller.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { bindValues } from '../postgres/statement.ts'
import { SettlementEntity, SettlementRequestEntity } from './settlement.entity.ts'
import type { BalanceKey } from './settlement.ts'

/** A balance whose oldest payment has been due for too long. */
interface OverdueBalance extends BalanceKey {
  readonly dueAtMs: number
  /** Failed attempts in a row. */
  readonly failures: number
}

/** Selects balances; undefined: all. */
interface OverdueFilter extends BusinessScope {
  /** Due before this time. */
  readonly byMs: number
}

/** A position in the list. */
type Place = Omit<OverdueBalance, 'failures'>

const FIRST: Place = { dueAtMs: 0, businessId: '', live: false }

/** Balances that should have been settled, the longest due first. */
export async function listOverdue(
  on: Queryable,
  filter: OverdueFilter,
  after: Place | undefined,
  limit: number,
): Promise<readonly OverdueBalance[]> {
  const { where, values } = conditionsOf(filter, after ?? FIRST, limit)
  const { rows } = await on.query<OverdueBalance>(
    `select business_id as "businessId", live, round(date_part('epoch', due_at) * 1000) as "dueAtMs", failures
      from settlement_due where ${where} order by due_at, business_id, live limit $1`,
    values,
  )
  return rows
}

/** Counts overdue balances, up to `max`. */
export async function countOverdueBalances(
  on: Queryable,
  filter: OverdueFilter,
  max: number,
): Promise<number> {
  const { where, values } = conditionsOf(filter, FIRST, max)
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from settlement_due where ${where} order by due_at, business_id, live limit $1
      ) due`,
    values,
  )
  return rows[0]?.count ?? 0
}

/** @param limit the value of `$1` */
function conditionsOf({ businessIds, live, byMs }: OverdueFilter, after: Place, limit: number) {
  const { values, bind } = bindValues(
    limit,
    new Date(byMs),
    new Date(after.dueAtMs),
    after.businessId,
    after.live,
  )
  const where = [
    'due_at <= $2',
    '(due_at, business_id, live) > ($3, $4, $5::boolean)',
    ...(businessIds === undefined ? [] : [`business_id = any (${bind(businessIds)}::text[])`]),
    ...(live === undefined ? [] : [`live = ${live}`]),
  ].join(' and ')
  return { where, values }
}

/** The balance that is due first; undefined: no balance waits for settlement. */
export async function findFirstDue(
  on: Queryable,
  { businessIds, live }: { readonly businessIds: readonly string[] | undefined; live: boolean },
): Promise<OverdueBalance | undefined> {
  const [first] = await listOverdue(on, { businessIds, live, byMs: FAR_MS }, undefined, 1)
  return first
}

/** Later than the due time of any payment. */
const FAR_MS = Date.UTC(2200, 0)

/** Registers the gauge of how long the most overdue balance has waited for its settlement. */
export function registerSettlementMetrics({
  database: { durablePool },
  metrics,
  clock,
}: Runtime): void {
  registerSampledGauges(metrics, async () => {
    const first = await findFirstDue(durablePool, { businessIds: undefined, live: true })
    return first === undefined ? 0 : Math.max(0, clock.now() - first.dueAtMs) / 1_000
  }, [
    {
      name: 'inflow_settlement_lag_seconds',
      help: 'How long the most overdue balance in live mode has waited for its settlement; 0: none is due.',
      measure: (seconds) => seconds,
    },
  ])
}

/** The balances, settlements and requests that should have been settled or completed by a time. */
interface Overdue {
  /** Balances without a settlement. */
  readonly balances: number
  readonly settlements: number
  readonly requests: number
}

export async function countOverdue({ durablePool, orm }: Database, byMs: number): Promise<Overdue> {
  const em = orm.em.fork()
  const by = { $lt: new Date(byMs) }
  return {
    balances: await countBalances(durablePool, byMs),
    settlements: await em.count(SettlementEntity, { status: 'RUNNING', startedAt: by }),
    requests: await em.count(SettlementRequestEntity, { completedAt: null, createdAt: by }),
  }
}

async function countBalances(pool: Pool, byMs: number): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from settlement_due d where d.due_at <= $1 and not exists (
        select from settlement s where s.business_id = d.business_id and s.live = d.live
          and s.status = 'RUNNING')`,
    [new Date(byMs)],
  )
  return rows[0]?.count ?? 0
}

/** When the oldest unsettled payment of a balance was recorded, in epoch milliseconds; undefined: there is none. */
export async function oldestUnsettledAt(
  on: Queryable,
  { businessId, live }: BalanceKey,
): Promise<number | undefined> {
  const { rows } = await on.query<{ atMs: number }>(
    // Everything up to the end of the last settlement is settled.
    `with settled as materialized (
        select coalesce((select scanned_sequence from settlement
          where business_id = $1 and live = $2 order by to_sequence desc limit 1),
          -(2::numeric ^ 62)::bigint) as up_to
      )
      select round(date_part('epoch', occurred_at) * 1000) as "atMs" from (
        (select a.business_sequence, a.occurred_at from archived_entry a
          cross join lateral (select * from transaction where id = a.subject_id offset 0) t
          where a.business_id = $1 and a.live = $2
            and a.business_sequence > (select up_to from settled)
            and a.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
            and t.status = 'SUCCESS' and not exists (select from ledger_posting p
              where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
          order by a.business_sequence limit 1)
        union all
        (select l.business_sequence, o.occurred_at from event_log l
          cross join lateral (select * from outbox where seq = l.outbox_seq offset 0) o
          cross join lateral (select * from transaction where id = o.subject_id offset 0) t
          where l.business_id = $1 and l.live = $2
            and l.business_sequence > (select up_to from settled)
            and o.kind in ('PAYMENT_NOTIFICATION', 'PAYMENT_ACCEPTED')
            and t.status = 'SUCCESS' and not exists (select from ledger_posting p
              where p.transaction_id = t.id and p.kind = 'settlement' offset 0)
            and ((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)
            -- The row of an archived event remains until its partition is dropped.
            and l.position > (select archived from event_retention where id = 1)
          order by l.business_sequence limit 1)
      ) event order by business_sequence limit 1`,
    [businessId, live],
  )
  return rows[0]?.atMs
}
