import { setImmediate as nextTurn } from 'node:timers/promises'

/** How many items are worked on before other work gets its turn. */
const CHUNK_ITEMS = 50

/** Maps many items, each at the cost of some computing, without keeping the process from its other work. */
export async function inChunks<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const results: Result[] = []
  for (const item of items) {
    results.push(map(item))
    if (results.length % CHUNK_ITEMS === 0) await nextTurn()
  }
  return results
}
