/**
 * Options of an `LRUCache` of at most so many entries that grows with them. Its own option `max` allocates all places
 * at once: for 50,000 entries a megabyte and several milliseconds of each start.
 */
export const growingTo = (entriesMax: number) => ({
  maxSize: entriesMax,
  sizeCalculation: () => 1,
})
