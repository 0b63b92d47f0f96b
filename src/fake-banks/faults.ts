/** How a fake bank fails at one request; what says `after` has done what was asked first. */
export const SERVER_FAULTS = [
  /** No answer ever comes. */
  'hang',
  'hang after',
  /** The connection is cut. */
  'cut',
  'cut after',
  /** HTTP 500 with a page for people. */
  '500',
  '500 after',
  /** HTTP 200 with a page for people, as a proxy in between sends. */
  'page',
  'page after',
] as const

export type ServerFault = (typeof SERVER_FAULTS)[number]

/** What will go wrong, by operation, in the order in which it was asked for. */
export interface Faults<Operation extends string, Fault extends string> {
  /** The next `times` requests of the operation fail so. */
  add(operation: Operation, fault: Fault, times?: number): void
  /** What goes wrong with the request that is here. */
  take(operation: Operation): Fault | undefined
  clear(): void
}

const PENDING_MAX = 100_000

export function createFaults<Operation extends string, Fault extends string>(): Faults<
  Operation,
  Fault
> {
  const pending = new Map<Operation, Fault[]>()
  return {
    add(operation, fault, times = 1) {
      const queue = pending.get(operation) ?? []
      if (queue.length + times > PENDING_MAX) throw new RangeError('too many faults are asked for')
      for (let i = 0; i < times; i++) queue.push(fault)
      pending.set(operation, queue)
    },
    take: (operation) => pending.get(operation)?.shift(),
    clear: () => pending.clear(),
  }
}
