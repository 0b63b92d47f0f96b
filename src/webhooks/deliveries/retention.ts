import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { deleteOldDeliveries, deleteRemovedEndpoints, giveUpHeld } from './delete-deliveries.ts'

interface RetentionOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly retentionDays: number
  /** How long deliveries are held for an endpoint that is disabled: as long as retries last. */
  readonly holdMs: number
}

/** Keeps deliveries and attempts from growing for ever, a little at a time. */
export interface DeliveryRetention extends Pick<Loop, 'start' | 'stop'> {
  /** One run, until the signal aborts. @returns how many were given up and how many deleted */
  run(signal?: AbortSignal): Promise<{ givenUp: number; deleted: number }>
}

const DAY_MS = 86_400_000

/** Between runs. */
const EVERY_MS = 600_000

/** How many deliveries one statement looks at, and how many statements one run makes. */
const ROWS_MAX = 2_000
const STATEMENTS_MAX = 2_000

/** "dlv_" and ten characters of time: ids of earlier deliveries sort before it. */
const ID_PREFIX_LENGTH = 14

export function createDeliveryRetention(options: RetentionOptions): DeliveryRetention {
  const { pool, clock, log, retentionDays, holdMs } = options
  const run = async (signal?: AbortSignal) => {
    const nowMs = clock.now()
    let givenUp = 0
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const rows = await giveUpHeld(pool, { nowMs, heldSinceMs: nowMs - holdMs, rowsMax: ROWS_MAX })
      givenUp += rows
      if (rows < ROWS_MAX) break
    }
    const beforeMs = nowMs - retentionDays * DAY_MS
    const beforeId = newId('dlv', beforeMs).slice(0, ID_PREFIX_LENGTH)
    let deleted = 0
    let after = ''
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const part = await deleteOldDeliveries(pool, { after, beforeId, beforeMs, rowsMax: ROWS_MAX })
      deleted += part.deleted
      if (part.last === undefined) break
      after = part.last
    }
    if (!signal?.aborted) await deleteRemovedEndpoints(pool, beforeMs)
    return { givenUp, deleted }
  }
  const loop = createLoop({
    name: 'delivery retention',
    log,
    everyMs: EVERY_MS,
    turn: async (signal) => void (await run(signal)),
  })
  return { start: loop.start, stop: loop.stop, run }
}
