import { setTimeout as wait } from 'node:timers/promises'
import type { ServerWritableStream } from '@grpc/grpc-js'
import { Fault } from '../../core/errors.ts'
import type { GrpcCallContext, RequestBox } from './call-context.ts'
import { type GrpcStatus, toGrpcStatus } from './status.ts'

type Rpc = ServerWritableStream<RequestBox, Buffer>

interface SendOptions<T> {
  readonly encode: (message: T) => Buffer
  /** Called when the source has reached its first wait, before anything is sent. */
  readonly opened: () => void
  /** Resets the stream of a client that reads nothing, not even the status. */
  readonly reset: () => void
  /** Until the client reads something of what waits for it. */
  readonly stallMs: number
}

/** How long the status of an aborted stream has to reach its client. */
const LAST_STATUS_MS = 250

/**
 * Sends the messages of a source, no faster than the client reads: the next message is pulled only
 * when grpc-js has room. If the call is aborted, the source returns at once, even while the source or
 * the client is being waited for.
 *
 * @returns the error of the source; undefined if the stream ended or was aborted
 */
export async function sendStream<T>(
  rpc: Rpc,
  context: GrpcCallContext,
  source: AsyncIterable<T>,
  { encode, opened, reset, stallMs }: SendOptions<T>,
): Promise<unknown> {
  const { signal } = context
  const iterator = source[Symbol.asyncIterator]()
  const room = createRoom(rpc, stallMs, () => {
    context.abort(new Fault('unavailable', 'The subscriber stopped reading; resume the stream'))
  })
  const release = once(() => void (async () => iterator.return?.())().catch(() => undefined))
  const end = once((status?: GrpcStatus) => {
    context.responded()
    if (status === undefined) rpc.end()
    else rpc.emit('error', status)
  })
  const onAbort = () => {
    end(toGrpcStatus(signal.reason, context.requestId))
    void wait(LAST_STATUS_MS, undefined, { ref: false }).then(reset)
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
    end(toGrpcStatus(error, context.requestId))
    return error
  } finally {
    signal.removeEventListener('abort', onAbort)
    release()
  }
}

/** Waits until the call accepts more messages, or until it is woken. */
function createRoom(rpc: Rpc, stallMs: number, stalled: () => void) {
  let waiting: (() => void) | undefined
  let timer: NodeJS.Timeout | undefined
  const wake = () => {
    clearTimeout(timer)
    waiting?.()
    waiting = undefined
  }
  rpc.on('drain', wake)
  const room = () =>
    new Promise<void>((resolve) => {
      waiting = resolve
      timer = setTimeout(stalled, stallMs).unref()
    })
  return { wait: room, wake }
}

function once<A extends unknown[]>(action: (...args: A) => void): (...args: A) => void {
  let done = false
  return (...args) => {
    if (done) return
    done = true
    action(...args)
  }
}
