import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { createLoop } from '../core/loop.ts'
import { writeKeyUses } from './store.ts'

/** The interval between two writes of key uses. */
const INTERVAL_MS = 30_000

/** The most keys that wait for the next write; uses of further keys are dropped. */
const KEYS_MAX = 20_000

/** Records when keys were last used, so that their owners see which are in use. */
export interface KeyUses {
  /** Records a use. Cheap, and does not wait. @param atMs epoch milliseconds */
  record(keyId: string, atMs: number): void
  start(): void
  /** Stops the loop and writes what is pending. */
  stop(): Promise<void>
}

interface Options {
  /** A pool whose commits do not wait for the disk: losing some uses in a crash is acceptable. */
  readonly pool: Pool
  readonly log: Logger
  readonly everyMs?: number
}

/** Collects uses in memory and writes them in the background, all in one statement. */
export function createKeyUses({ pool, log, everyMs = INTERVAL_MS }: Options): KeyUses {
  let pending = new Map<string, number>()
  const record = (keyId: string, atMs: number): void => {
    const known = pending.get(keyId)
    if (known === undefined ? pending.size < KEYS_MAX : known < atMs) pending.set(keyId, atMs)
  }
  const write = async (): Promise<void> => {
    const uses = pending
    if (uses.size === 0) return
    pending = new Map()
    try {
      await writeKeyUses(pool, uses)
    } catch (error) {
      for (const [keyId, atMs] of uses) if (!pending.has(keyId)) record(keyId, atMs)
      throw error
    }
  }
  const loop = createLoop({
    name: 'key uses',
    log,
    everyMs,
    turn: async () => void (await write()),
  })
  return {
    record,
    start: loop.start,
    async stop() {
      await loop.stop()
      await write().catch((error: unknown) => {
        log.warn({ err: error, keys: pending.size }, 'could not write when keys were last used')
      })
    },
  }
}
