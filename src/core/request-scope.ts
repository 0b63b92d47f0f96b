import { AsyncLocalStorage } from 'node:async_hooks'

const scope = new AsyncLocalStorage<string>()

/** Runs what belongs to a request: the log adds its id to each line that is written meanwhile. */
export function inRequest<T>(requestId: string, run: () => T): T {
  return scope.run(requestId, run)
}

/** The request that the present work belongs to; undefined: none, or many, as in a batch. */
export function currentRequestId(): string | undefined {
  return scope.getStore()
}

/** Returns a function that runs work as belonging to no request, if it is called outside of one. */
export function outsideOfRequests(): <T>(run: () => T) => T {
  return AsyncLocalStorage.snapshot()
}
