import type { Pool } from 'pg'
import { type Call, createIsolatingBatcher, type ObserveBatches } from '../postgres/batcher.ts'
import {
  type Finished,
  findNotifications,
  finishNotifications,
  insertNotifications,
  type NewNotification,
  type Processed,
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
    itemsMax: ITEMS_MAX,
    batchesMax: 2,
    queueMax: 20_000,
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

/** Stores the result of processing a notification, unless it is already processed. */
export type FinishProcessing = (id: string, processed: Processed) => Promise<void>

interface Item {
  readonly id: string
  readonly processed: Processed
}

/**
 * Creates a function that stores results in batches.
 *
 * @param relaxedPool Its commits do not wait for the disk: a notification whose result is lost is
 * still pending, and processing it again is safe.
 */
export function createFinishProcessing(
  relaxedPool: Pool,
  observeBatches?: ObserveBatches,
): FinishProcessing {
  const finish = createIsolatingBatcher<Item, true>({
    run: async (calls) => {
      await finishNotifications(relaxedPool, merge(calls.map(({ item }) => item)))
      for (const call of calls) call.result = true
    },
    itemsMax: 256,
    batchesMax: 1,
    queueMax: 20_000,
    observers: observeBatches && [observeBatches('notification_results')],
  })
  return async (id, processed) => void (await finish({ id, processed }))
}

/** Several results of one notification become what they are when they are stored one by one. */
function merge(items: readonly Item[]): readonly Finished[] {
  const byId = new Map<string, Finished>()
  for (const { id, processed } of items) {
    const earlier = byId.get(id)
    if (earlier === undefined) byId.set(id, { ...processed, id, tries: 1 })
    else if (!isFinal(earlier)) byId.set(id, { ...processed, id, tries: earlier.tries + 1 })
  }
  return [...byId.values()]
}

function isFinal({ state, outcome }: Processed): boolean {
  return state === 'PROCESSED' && outcome !== 'UNCONFIRMED'
}
