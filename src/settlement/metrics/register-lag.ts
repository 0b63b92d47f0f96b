import type { Pool } from 'pg'
import type { Registry } from 'prom-client'
import type { Clock } from '../../core/clock.ts'
import { registerSampledGauges } from '../../core/sampled-gauges.ts'
import { findFirstDue } from '../due/list-overdue.ts'

/** Registers for how long the balance that has been due for longest waits for its settlement. */
export function registerSettlementMetrics(metrics: Registry, pool: Pool, clock: Clock): void {
  registerSampledGauges(metrics, async () => {
    const first = await findFirstDue(pool, { businessIds: undefined, live: true })
    return first === undefined ? 0 : Math.max(0, clock.now() - first.dueAtMs) / 1_000
  }, [
    {
      name: 'inflow_settlement_lag_seconds',
      help: 'How long the most overdue balance in live mode has waited for its settlement; 0: none is due.',
      measure: (seconds) => seconds,
    },
  ])
}
