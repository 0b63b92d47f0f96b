/** How a fake bank fails one request; with `after`, it executes the request first. */
export const SERVER_FAULTS = [
  /** Never responds. */
  'hang',
  'hang after',
  /** Closes the connection. */
  'cut',
  'cut after',
  /** HTTP 500 with an HTML page. */
  '500',
  '500 after',
  /** HTTP 200 with an HTML page, as a proxy in between might send. */
  'page',
  'page after',
] as const

export type ServerFault = (typeof SERVER_FAULTS)[number]

/** Injected faults by operation, first in first out. */
export interface Faults<Operation extends string, Fault extends string> {
  /** Makes the next `times` requests of the operation fail. */
  add(operation: Operation, fault: Fault, times?: number): void
  /** Removes and returns the fault of the current request. */
  take(operation: Operation): Fault | undefined
  clear(): void
}

export function createFaults<Operation extends string, Fault extends string>(): Faults<
  Operation,
  Fault
> {
  const pending = new Map<Operation, Fault[]>()
  return {
    add(operation, fault, times = 1) {
      const queue = pending.get(operation) ?? []
      for (let i = 0; i < times; i++) queue.push(fault)
      pending.set(operation, queue)
    },
    take: (operation) => pending.get(operation)?.shift(),
    clear: () => pending.clear(),
  }
}
