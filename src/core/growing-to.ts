/** The bound of an `LRUCache` that grows with its entries: `max` would allocate the memory of all of them at the start. */
export const growingTo = (maxSize: number) => ({ maxSize, sizeCalculation: () => 1 })
