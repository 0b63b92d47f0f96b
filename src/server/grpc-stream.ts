import type { GrpcCall } from './grpc-call.ts'
import { type GrpcStatus, toGrpcStatus } from './grpc-status.ts'

/**
 * Sends what a source yields, no faster than the client reads: while a message waits to be sent,
 * the source is not asked for the next. When the call is aborted, the source is
 * told to return at once, also while it or the client is being waited for.
 *
 * @param opened called when the source has run up to its first wait, before anything is sent
 * @returns what the stream failed with by itself; undefined when it ended well or was aborted
 */
export async function sendStream<T>(
  rpc: GrpcCall,
  source: AsyncIterable<T>,
  encode: (message: T) => Buffer,
  opened: () => void,
): Promise<unknown> {
  const { signal } = rpc
  const iterator = source[Symbol.asyncIterator]()
  const room = createRoom(rpc)
  const release = once(() => void (async () => iterator.return?.())().catch(() => undefined))
  const end = once((status?: GrpcStatus) => {
    if (status === undefined) rpc.end()
    else rpc.fail(status)
  })
  const onAbort = () => {
    end(toGrpcStatus(signal.reason, rpc.requestId))
    room.wake()
    release()
  }
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    if (signal.aborted) return onAbort()
    let next = iterator.next()
    opened()
    for (let item = await next; item.done !== true; item = await next) {
      if (signal.aborted) return undefined
      if (!rpc.write(encode(item.value))) await room.wait()
      if (signal.aborted) return undefined
      next = iterator.next()
    }
    end()
    return undefined
  } catch (error) {
    if (signal.aborted) return undefined
    end(toGrpcStatus(error, rpc.requestId))
    return error
  } finally {
    signal.removeEventListener('abort', onAbort)
    release()
  }
}

/** Waits until the call takes more messages, or until woken. */
function createRoom(rpc: GrpcCall) {
  let waiting: (() => void) | undefined
  const wake = () => {
    waiting?.()
    waiting = undefined
  }
  rpc.onWritable = wake
  const wait = () =>
    new Promise<void>((resolve) => {
      waiting = resolve
    })
  return { wait, wake }
}

function once<A extends unknown[]>(action: (...args: A) => void): (...args: A) => void {
  let done = false
  return (...args) => {
    if (done) return
    done = true
    action(...args)
  }
}
