import type { Interceptor, StreamRequest, StreamResponse } from '@connectrpc/connect'
import { type Caller, callerKey } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'

/** When it is worth trying again: a stream ends by itself within half an hour. */
const RETRY_AFTER_SECONDS = 30

/**
 * Bounds the streams that one caller has open at once, after authentication, so that a leaked token,
 * or a subscriber that leaves its streams open, cannot use all of them.
 */
export function limitStreams(streamsPerCallerMax: number): Interceptor {
  const open = new Map<string, number>()
  const limited = async (
    request: StreamRequest,
    caller: Caller,
    next: ReturnType<Interceptor>,
  ): Promise<StreamResponse> => {
    const id = caller.kind === 'internal' ? caller.tokenId : caller.keyId
    const count = open.get(id) ?? 0
    if (count >= streamsPerCallerMax) {
      const text = `The credential has ${count} streams open, and may have no more: close some first`
      throw new Fault('rate_limited', text, { retryAfterSeconds: RETRY_AFTER_SECONDS })
    }
    open.set(id, count + 1)
    let released = false
    const release = (): void => {
      if (released) return
      released = true
      const left = (open.get(id) ?? 1) - 1
      if (left === 0) open.delete(id)
      else open.set(id, left)
    }
    // A stream whose client is gone may never be read.
    request.signal.addEventListener('abort', release, { once: true })
    try {
      const response = await next(request)
      if (!response.stream) throw new Error('a streaming request has a streaming response')
      return { ...response, message: releasing(response.message, release) }
    } catch (error) {
      release()
      throw error
    }
  }
  return (next) => (request) => {
    const caller = request.contextValues.get(callerKey)
    return request.stream && caller ? limited(request, caller, next) : next(request)
  }
}

/** The same items; calls `release` at the end, however it comes, also if nothing was read. */
function releasing<T>(source: AsyncIterable<T>, release: () => void): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const inner = source[Symbol.asyncIterator]()
      return {
        async next() {
          try {
            const item = await inner.next()
            if (item.done === true) release()
            return item
          } catch (error) {
            release()
            throw error
          }
        },
        async return(value?: unknown) {
          release()
          return (await inner.return?.(value)) ?? { done: true, value }
        },
      }
    },
  }
}
