import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { deleteOldDeliveries, expireUndeliverable, purgeEndpoints } from './delete-deliveries.ts'

interface RetentionOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly retentionDays: number
  /** How long deliveries to a disabled endpoint stay paused: as long as retries last. */
  readonly pausedMaxMs: number
}

/** Ends undeliverable deliveries and deletes old ones, in small batches. */
export interface DeliveryRetention extends Pick<Loop, 'start' | 'stop'> {
  /** One run, until the signal aborts. @returns how many deliveries expired and were deleted */
  run(signal?: AbortSignal): Promise<{ expired: number; deleted: number }>
}

const DAY_MS = 86_400_000

/** The time between two runs. */
const EVERY_MS = 600_000

/** Bounds: deliveries scanned per statement, and statements per loop of one run. */
const ROWS_MAX = 2_000
const STATEMENTS_MAX = 2_000

/** "dlv_" and ten characters of time: ids of earlier deliveries sort before it. */
const ID_PREFIX_LENGTH = 14

export function createDeliveryRetention(options: RetentionOptions): DeliveryRetention {
  const { pool, clock, log, retentionDays, pausedMaxMs } = options
  const run = async (signal?: AbortSignal) => {
    const nowMs = clock.now()
    let expired = 0
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const rows = await expireUndeliverable(pool, {
        nowMs,
        pausedBeforeMs: nowMs - pausedMaxMs,
        rowsMax: ROWS_MAX,
      })
      expired += rows
      if (rows < ROWS_MAX) break
    }
    const beforeMs = nowMs - retentionDays * DAY_MS
    const beforeId = newId('dlv', beforeMs).slice(0, ID_PREFIX_LENGTH)
    let deleted = 0
    let after = ''
    for (let i = 0; i < STATEMENTS_MAX && !signal?.aborted; i++) {
      const page = await deleteOldDeliveries(pool, { after, beforeId, beforeMs, rowsMax: ROWS_MAX })
      deleted += page.deleted
      if (page.last === undefined) break
      after = page.last
    }
    if (!signal?.aborted) await purgeEndpoints(pool, beforeMs)
    return { expired, deleted }
  }
  const loop = createLoop({
    name: 'delivery retention',
    log,
    everyMs: EVERY_MS,
    turn: async (signal) => void (await run(signal)),
  })
  return { start: loop.start, stop: loop.stop, run }
}
