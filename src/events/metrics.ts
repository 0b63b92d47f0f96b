import { Gauge } from 'prom-client'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type FollowerLag, readFollowerLags } from './follow-log.ts'
import { type Lag, ROWS_COUNTED_MAX, readLag } from './log-state.ts'
import type { Tail } from './tail.ts'

/** Read often: the statement is cheap, and events without positions delay everything that follows a payment. */
const PERIOD_MS = 1_000

/**
 * Registers the gauges of the event pipeline.
 */
export function registerEventMetrics(
  { database: { durablePool }, metrics }: Runtime,
  tail: Tail,
): void {
  const gauge = (name: string, help: string, measure: (lag: Lag) => number) => ({
    name,
    help,
    measure: (lag: Lag | undefined) => lag && measure(lag),
  })
  registerSampledGauges(
    metrics,
    () => readLag(durablePool),
    [
      gauge(
        'inflow_sequencer_lag_seconds',
        'Age of the oldest committed event that has no position in the log yet.',
        ({ seconds }) => Math.max(0, seconds ?? 0),
      ),
      gauge(
        'inflow_database_oldest_xid_age',
        'Age of the oldest running transaction, in transaction ids; idle transactions raise it.',
        ({ xid_age }) => Number(xid_age),
      ),
      gauge('inflow_event_log_end', 'Position of the last event in the log.', ({ position }) =>
        Number(position),
      ),
      gauge(
        'inflow_event_epoch',
        'Epoch of the event log: 1 at first; it rises after a failover or a restore.',
        ({ epoch }) => epoch,
      ),
      gauge(
        'inflow_sequencer_lag_rows',
        `Committed events that have no position in the log yet, counted up to ${ROWS_COUNTED_MAX}.`,
        ({ rows }) => rows,
      ),
    ],
    { periodMs: PERIOD_MS },
  )
  const ofFollowers =
    (measure: (lag: FollowerLag) => number) => (followers: readonly FollowerLag[]) =>
      followers.map((each) => ({ labels: { follower: each.name }, value: measure(each) }))
  registerSampledGauges(metrics, () => readFollowerLags(durablePool), [
    {
      name: 'inflow_log_follower_lag_seconds',
      help: 'Age of the first event of the log that a follower has not read: the figures, the index of due settlements, or the payouts of settlements.',
      labelNames: ['follower'],
      measure: ofFollowers(({ seconds }) => seconds),
    },
    {
      name: 'inflow_log_follower_set_aside_events',
      help: 'Events that the database refused there, which were set aside.',
      labelNames: ['follower'],
      measure: ofFollowers(({ setAside }) => setAside),
    },
  ])
  new Gauge({
    name: 'inflow_event_subscribers_waiting',
    help: 'Subscribers that have received all events and wait for more.',
    registers: [metrics],
    collect() {
      this.set(tail.sizes().waiting)
    },
  })
  new Gauge({
    name: 'inflow_event_tail_entries',
    help: 'Events in memory for subscribers.',
    registers: [metrics],
    collect() {
      this.set(tail.sizes().entries)
    },
  })
}
