import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { createLoop } from '../core/loop.ts'
import { writeKeyUses } from './store.ts'

/** Between two statements that write down which keys were used. */
const EVERY_MS = 30_000

/** How many keys wait to be written down; of more, nothing is told until the next time. */
const KEYS_MAX = 20_000

/** When keys were last used, for their owners to see which are in use. */
export interface KeyUses {
  /** Cheap, and does not wait. @param atMs epoch milliseconds */
  note(keyId: string, atMs: number): void
  start(): void
  /** Writes down what is left. */
  stop(): Promise<void>
}

interface Options {
  /** One whose commits need not wait for the disk: what a crash undoes is of no account. */
  readonly pool: Pool
  readonly log: Logger
  readonly everyMs?: number
}

/** Gathers uses in memory and writes them in the background, all in one statement. */
export function createKeyUses({ pool, log, everyMs = EVERY_MS }: Options): KeyUses {
  let waiting = new Map<string, number>()
  const note = (keyId: string, atMs: number): void => {
    if (waiting.size < KEYS_MAX || waiting.has(keyId)) waiting.set(keyId, atMs)
  }
  const write = async (): Promise<void> => {
    const uses = waiting
    if (uses.size === 0) return
    waiting = new Map()
    try {
      await writeKeyUses(pool, uses)
    } catch (error) {
      for (const [keyId, atMs] of uses) if (!waiting.has(keyId)) note(keyId, atMs)
      throw error
    }
  }
  const loop = createLoop({
    name: 'uses of keys',
    log,
    everyMs,
    turn: async () => void (await write()),
  })
  return {
    note,
    start: loop.start,
    async stop() {
      await loop.stop()
      await write().catch((error: unknown) => {
        log.warn({ err: error, keys: waiting.size }, 'uses of keys were not written down')
      })
    },
  }
}
