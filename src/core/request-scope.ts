import { AsyncLocalStorage } from 'node:async_hooks'

/** What lines of the log state of the request that they belong to. */
export interface RequestFields {
  readonly request_id: string
  /** Absent: it has no trace. */
  readonly trace_id?: string
}

const scope = new AsyncLocalStorage<RequestFields>()

/** Runs what belongs to a request: the log adds its fields to each line that is written meanwhile. */
export function inRequest<T>(fields: RequestFields, run: () => T): T {
  return scope.run(fields, run)
}

/** The request that the present work belongs to; undefined: none, or many, as in a batch. */
export function currentRequest(): RequestFields | undefined {
  return scope.getStore()
}

/** Returns a function that runs work as belonging to no request, if it is called outside of one. */
export function outsideOfRequests(): <T>(run: () => T) => T {
  return AsyncLocalStorage.snapshot()
}
