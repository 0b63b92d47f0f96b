import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import { newId } from '../ids.ts'
import { createLoop, type Loop } from '../loop.ts'
import { dispatchEvents } from './dispatch-events.ts'

interface DispatcherOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  /** Called when there are new deliveries. */
  readonly onDeliveries: () => void
}

const EVENTS_MAX = 1_000

/** "dlv_" and ten characters of time; the statement adds the random ones. */
const ID_PREFIX_LENGTH = 14

const IDLE_MS = 1_000

/** Turns the events of the log into deliveries. Any instance may do it; a row lock elects one. */
export function createDispatcher(options: DispatcherOptions): Loop {
  const { pool, clock, log, onDeliveries } = options
  return createLoop({
    name: 'webhook dispatcher',
    log,
    async turn() {
      const nowMs = clock.now()
      const idPrefix = newId('dlv', nowMs).slice(0, ID_PREFIX_LENGTH)
      const made = await dispatchEvents(pool, { idPrefix, nowMs, eventsMax: EVENTS_MAX })
      if (made.deliveries > 0) onDeliveries()
      return made.events === EVENTS_MAX ? 0 : IDLE_MS
    },
  })
}
