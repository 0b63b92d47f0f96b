import type { Pool } from 'pg'
import type { Registry } from 'prom-client'
import { registerSampledGauges } from '../../core/sampled-gauges.ts'
import { createPendingFrom } from '../deliveries/pending-from.ts'
import { countUnhealthyByState } from '../endpoints/list-unhealthy.ts'
import { type EndpointState, type PendingDeliveries, readPending } from './read-pending.ts'

/** As long as workers keep theirs. */
const PENDING_FROM_MAX_AGE_MS = 10_000

/** One statement on many rows: less often than the others. */
const PERIOD_MS = 10_000

const STATES: readonly EndpointState[] = ['enabled', 'failing', 'disabled']
const UNHEALTHY = ['failing', 'disabled'] as const
const COUNTED_MAX = 1_000

/** Registers the backlog of deliveries and the state of endpoints, as the database has them. */
export function registerBacklogMetrics(metrics: Registry, pool: Pool): void {
  const pendingFrom = createPendingFrom(pool, PENDING_FROM_MAX_AGE_MS)
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
    async () => readPending(pool, await pendingFrom(performance.now())),
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
    () => countUnhealthyByState(pool, COUNTED_MAX),
    [
      {
        name: 'inflow_webhook_unhealthy_endpoints',
        help: 'Endpoints whose webhooks fail, and those that were disabled because they did, each up to 1,000.',
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
