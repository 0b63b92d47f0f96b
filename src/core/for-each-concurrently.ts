/**
 * Works on several items at once, taking them in order. After a failure no further item is begun.
 *
 * @param concurrencyMax how many items are worked on at once
 * @throws the first failure, once all work has ended
 */
export async function forEachConcurrently<Item>(
  items: Iterable<Item> | AsyncIterable<Item>,
  concurrencyMax: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const iterator =
    Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  let failure: { readonly error: unknown } | undefined
  const worker = async (): Promise<void> => {
    while (failure === undefined) {
      try {
        const next = await iterator.next()
        if (next.done) return
        await work(next.value)
      } catch (error) {
        failure ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: concurrencyMax }, worker))
  if (failure !== undefined) throw failure.error
}
