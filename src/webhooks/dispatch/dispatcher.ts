import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { Tracing } from '../../tracing/tracing.ts'
import { readClaims } from '../deliveries/claim-deliveries.ts'
import type { UnclearClaims } from '../deliveries/end-claims.ts'
import type { Worker } from '../deliveries/worker.ts'
import { dispatchEvents } from './dispatch-events.ts'

interface DispatcherOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly tracing?: Tracing | undefined
  readonly leaseMs: number
  /** How long a disabled endpoint still gets deliveries, which are paused. */
  readonly pausedMaxMs: number
  readonly unclear: UnclearClaims
  /** Sends the deliveries that are claimed immediately. */
  readonly worker: Pick<Worker, 'allot' | 'enqueue'>
  /** Called when it has created other deliveries that are due. */
  readonly onDue: () => void
}

const EVENTS_MAX = 1_000

/** "dlv_" and ten characters of time; the statement adds the random characters. */
const ID_PREFIX_LENGTH = 14

const IDLE_MS = 1_000

/** How far before the last event dispatched here the last deliveries of endpoints are looked for first. */
const RECENT_EVENTS = 10_000n

/** Creates deliveries from the events of the log. A row lock elects the instance that does it. */
export function createDispatcher(options: DispatcherOptions): Loop {
  const { pool, clock, log, leaseMs, pausedMaxMs, worker, onDue, tracing, unclear } = options
  let recentFrom = 0n
  return createLoop({
    name: 'webhook dispatcher',
    log,
    async turn() {
      const nowMs = clock.now()
      const span = tracing?.start('dispatch events')
      const idPrefix = newId('dlv', nowMs).slice(0, ID_PREFIX_LENGTH)
      const allotments = worker.allot()
      const endpointIds = allotments.map(({ endpointId }) => endpointId)
      const leasedUntilMs = nowMs + leaseMs
      const { dispatched, claims } = await unclear.watch(
        { endpointIds, leasedUntilMs },
        async () => {
          const dispatched = await dispatchEvents(pool, {
            ...{ idPrefix, nowMs, eventsMax: EVENTS_MAX, allotments, leaseMs, recentFrom },
            pausedBeforeMs: nowMs - pausedMaxMs,
          })
          return { dispatched, ...(await readClaims(pool, dispatched.claimed)) }
        },
      )
      if (dispatched.position !== undefined) recentFrom = dispatched.position - RECENT_EVENTS
      const due = dispatched.deliveries - claims.length
      if (claims.length > 0) {
        const endpoints = dispatched.claimed.map((row) => {
          return { id: row.endpoint_id, concurrency: row.concurrency, rateLimit: row.rate_limit }
        })
        await worker.enqueue(claims, endpoints)
      }
      if (due > 0) onDue()
      const { events, deliveries } = dispatched
      if (events > 0) {
        span?.set({ 'inflow.events': events, 'inflow.deliveries': deliveries })
        span?.end()
      }
      return events === EVENTS_MAX ? 0 : IDLE_MS
    },
  })
}
