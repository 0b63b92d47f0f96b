import type { Pool } from 'pg'
import type { ObserveBatches } from '../postgres/batch-metrics.ts'
import { createIsolatingBatcher } from '../postgres/isolating-batcher.ts'
import { type Finished, finishNotifications, type Processed } from './store.ts'

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
    ...{ itemsMax: 256, batchesMax: 1, queueMax: 20_000 },
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
