import { registerSampledGauges } from '../core/sampled-gauges.ts'
import { DEADLINES } from '../postgres/client.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createPendingFrom } from './deliveries/backlog.ts'
import { countUnhealthyByState } from './endpoints/list-unhealthy.ts'

/** How long the position from which deliveries may be pending is kept. */
const PENDING_FROM_MAX_AGE_MS = 10_000

/** The statement reads many rows, so these gauges are read less often than others. */
const PERIOD_MS = 10_000

const STATES: readonly EndpointState[] = ['enabled', 'failing', 'disabled']

const UNHEALTHY = ['failing', 'disabled'] as const

const COUNTED_MAX = 1_000

/** Registers the backlog of deliveries and the state of endpoints, as read from the database. */
export function registerBacklogMetrics({ database: { durablePool }, metrics }: Runtime): void {
  const pendingFrom = createPendingFrom(durablePool, PENDING_FROM_MAX_AGE_MS)
  const gauge = (name: string, help: string, measure: (of: PendingDeliveries) => number) => ({
    name,
    help,
    labelNames: ['state', 'mode'],
    measure: (pending: readonly PendingDeliveries[]) =>
      [true, false].flatMap((live) =>
        STATES.map((state) => {
          const found = pending.find((each) => each.state === state && each.live === live)
          const labels = { state, mode: live ? 'live' : 'test' }
          return { labels, value: found === undefined ? 0 : measure(found) }
        }),
      ),
  })
  registerSampledGauges(
    metrics,
    async () => readPending(durablePool, await pendingFrom(performance.now())),
    [
      gauge(
        'inflow_webhook_deliveries_pending',
        'Webhook deliveries that are not acknowledged yet, by state of the endpoint; of each endpoint up to an equal share of 20,000.',
        ({ deliveries }) => deliveries,
      ),
      gauge(
        'inflow_webhook_oldest_pending_seconds',
        'Age of the oldest webhook delivery that is not acknowledged yet, by state of the endpoint.',
        ({ oldestSeconds }) => oldestSeconds,
      ),
      gauge(
        'inflow_webhook_oldest_due_seconds',
        'How long the next attempt of a webhook delivery has been due at most, by state of the endpoint.',
        ({ dueSeconds }) => dueSeconds,
      ),
    ],
    { periodMs: PERIOD_MS },
  )
  registerSampledGauges(
    metrics,
    () => countUnhealthyByState(durablePool, COUNTED_MAX),
    [
      {
        name: 'inflow_webhook_unhealthy_endpoints',
        help: 'Endpoints whose webhooks fail, and endpoints that were disabled for it, each up to 1,000.',
        labelNames: ['state', 'mode'],
        measure: (counts) =>
          [true, false].flatMap((live) =>
            UNHEALTHY.map((state) => {
              const found = counts.find((each) => each.state === state && each.live === live)
              return { labels: { state, mode: live ? 'live' : 'test' }, value: found?.count ?? 0 }
            }),
          ),
      },
    ],
    { periodMs: PERIOD_MS },
  )
}

/** The state of an endpoint that determines whether its deliveries are attempted. */
type EndpointState = 'enabled' | 'failing' | 'disabled'

/** The pending deliveries to the endpoints of a state and a mode. */
export interface PendingDeliveries {
  readonly state: EndpointState
  readonly live: boolean
  readonly deliveries: number
  /** The age of the oldest delivery. */
  readonly oldestSeconds: number
  /** How long the oldest delivery that may be attempted now has been due; 0 if none is due. */
  readonly dueSeconds: number
}

interface Bounds {
  /** Endpoints with pending deliveries that are read. */
  readonly endpointsMax: number
  /** Deliveries that are read; each endpoint has an equal share, in the order in which its deliveries are due. */
  readonly deliveriesMax: number
}

/** Reading this many rows takes some tens of milliseconds. */
const BOUNDS: Bounds = { endpointsMax: 1_000, deliveriesMax: 20_000 }

/**
 * Counts pending deliveries by the state of their endpoints, within bounds. The statement skips from one endpoint to the
 * next in the index, so that its cost does not depend on the number of deliveries.
 *
 * @param pendingFrom a position before all pending deliveries
 */
export async function readPending(
  on: Queryable,
  pendingFrom: bigint,
  { endpointsMax, deliveriesMax }: Bounds = BOUNDS,
): Promise<readonly PendingDeliveries[]> {
  const { rows } = await on.query<PendingDeliveries>({
    name: 'webhook-read-pending',
    query_timeout: DEADLINES.hot,
    text: `with recursive pending(endpoint_id, number) as (
        (select endpoint_id, 1 from webhook_delivery
          where state = 'PENDING' and position >= $1 order by endpoint_id, due_at limit 1)
        union all
        select next.*, p.number + 1 from pending p cross join lateral (
          select endpoint_id from webhook_delivery
          where state = 'PENDING' and position >= $1 and endpoint_id > p.endpoint_id
          order by endpoint_id, due_at limit 1) next
        where p.number < $2
      )
      select case when e.disabled_at is not null then 'disabled'
          when e.failing_since is not null then 'failing' else 'enabled' end as state,
        e.live, sum(d.deliveries)::int as deliveries,
        greatest(0, extract(epoch from clock_timestamp() - min(d.created_at)))::float8 as "oldestSeconds",
        greatest(0, coalesce(extract(epoch from clock_timestamp() - min(d.due_at)), 0))::float8 as "dueSeconds"
      from pending p
      cross join lateral (select live, disabled_at, failing_since from webhook_endpoint
        where id = p.endpoint_id and deleted_at is null offset 0) e
      cross join lateral (
        select count(*) as deliveries, min(created_at) as created_at,
          min(due_at) filter (where due_at <= clock_timestamp()
            and (leased_until is null or leased_until <= clock_timestamp())) as due_at
        from (select created_at, due_at, leased_until from webhook_delivery
          where endpoint_id = p.endpoint_id and position >= $1 and state = 'PENDING'
          order by due_at limit (select $3 / count(*) from pending)) own
      ) d
      group by 1, 2`,
    values: [pendingFrom, endpointsMax, deliveriesMax],
  })
  return rows
}
