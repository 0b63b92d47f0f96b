import type { Pool } from 'pg'
import type { ObserveBatches } from '../postgres/batch-metrics.ts'
import { type Call, createIsolatingBatcher } from '../postgres/isolating-batcher.ts'
import {
  findNotifications,
  insertNotifications,
  type NewNotification,
  type StoredNotification,
} from './store.ts'

/**
 * Stores a notification as pending, and resolves after the commit.
 *
 * @returns the one stored for this body; a new one has no tries
 */
export type StoreNotification = (row: NewNotification) => Promise<StoredNotification>

type StoreCall = Call<NewNotification, StoredNotification>

/** A body has up to 64 KiB, and is stored encrypted: at most eight megabytes a statement. */
const ITEMS_MAX = 64

/**
 * Creates a function that stores notifications in batches: those that arrive while a batch is being
 * written share the next statement and its commit. One that the database refuses fails alone.
 */
export function createStoreNotification(
  pool: Pool,
  observeBatches?: ObserveBatches,
): StoreNotification {
  return createIsolatingBatcher({
    run: (calls: readonly StoreCall[]) => storeBatch(pool, calls),
    ...{ itemsMax: ITEMS_MAX, batchesMax: 2, queueMax: 20_000 },
    observers: observeBatches && [observeBatches('notifications')],
  })
}

async function storeBatch(pool: Pool, calls: readonly StoreCall[]): Promise<void> {
  const inserted = await insertNotifications(
    pool,
    calls.map(({ item }) => item),
  )
  const repeats: StoreCall[] = []
  for (const call of calls) {
    if (inserted.has(call.item.id)) call.result = toNew(call.item)
    else repeats.push(call)
  }
  if (repeats.length === 0) return
  const found = await findNotifications(
    pool,
    repeats.map(({ item }) => item),
  )
  // Only the retention can have deleted it between the two statements.
  for (const [index, call] of repeats.entries()) call.result = found[index] ?? toNew(call.item)
}

function toNew({ id }: NewNotification): StoredNotification {
  return { id, state: 'PENDING', outcome: 'RETRY', tries: 0 }
}
