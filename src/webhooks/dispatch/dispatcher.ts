import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { Tracing } from '../../tracing/tracing.ts'
import { readClaims } from '../deliveries/claim-deliveries.ts'
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
  const { pool, clock, log, leaseMs, pausedMaxMs, worker, onDue, tracing } = options
  let recentFrom = 0n
  return createLoop({
    name: 'webhook dispatcher',
    log,
    async turn() {
      const nowMs = clock.now()
      const span = tracing?.start('dispatch events')
      const idPrefix = newId('dlv', nowMs).slice(0, ID_PREFIX_LENGTH)
      const dispatched = await dispatchEvents(pool, {
        idPrefix,
        nowMs,
        eventsMax: EVENTS_MAX,
        allotments: worker.allot(),
        leaseMs,
        pausedBeforeMs: nowMs - pausedMaxMs,
        recentFrom,
      })
      if (dispatched.position !== undefined) recentFrom = dispatched.position - RECENT_EVENTS
      let due = dispatched.deliveries
      if (dispatched.claimed.length > 0) {
        const { claims } = await readClaims(pool, dispatched.claimed)
        const endpoints = dispatched.claimed.map((row) => {
          return { id: row.endpoint_id, concurrency: row.concurrency, rateLimit: row.rate_limit }
        })
        await worker.enqueue(claims, endpoints)
        due -= claims.length
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
