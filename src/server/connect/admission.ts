import type { Message } from '@bufbuild/protobuf'
import {
  Code,
  ConnectError,
  type HandlerContext,
  type StreamResponse,
  type UnaryResponse,
} from '@connectrpc/connect'
import { Fault } from '../../core/errors.ts'
import type { CallContext } from '../rpc/call-context.ts'
import type { Decoded, Invoker } from '../rpc/invokers.ts'
import { toConnectError, toFault } from '../rpc/status.ts'

/** A call that has begun before its message was read. */
export interface Admission {
  /** Resolves when the call needs its message. Rejects with the error of a call that is refused. */
  readonly admitted: Promise<void>
  /** Passes the message to the call. */
  give(message: Message): void
  /** The response. Rejects with a ConnectError. */
  readonly response: Promise<UnaryResponse | StreamResponse>
  toError(error: unknown): ConnectError
  readonly context: CallContext
}

/** The other end of a call. */
export type Peer = Pick<CallContext, 'address' | 'requestId'> & Required<Pick<CallContext, 'abort'>>

/**
 * Begins a call: the caller is authenticated before a byte of the body is read. An error of Connect
 * about the body gets the details that all our errors have.
 */
export function admit(invoker: Invoker, handler: HandlerContext, peer: Peer): Admission {
  const admitted = Promise.withResolvers<void>()
  const body = Promise.withResolvers<Decoded>()
  // A call that is refused never reads its body.
  body.promise.catch(() => undefined)
  let finished = false
  const context: CallContext = {
    protocol: 'connect',
    header: handler.requestHeader,
    signal: handler.signal,
    ...peer,
  }
  const decode = () => {
    admitted.resolve()
    return body.promise
  }
  const toError = (error: unknown) =>
    error instanceof ConnectError ? error : toConnectError(toFault(error), peer.requestId)
  const begun =
    invoker.method.methodKind === 'unary'
      ? invoker.unary(decode, context)
      : invoker.stream(decode, context)
  const response = begun.catch((error: unknown) => {
    finished = true
    throw toError(error)
  })
  // A stream decodes its message when it is pulled, which is after the request gate.
  response.then(() => admitted.resolve(), admitted.reject)
  const onAbort = () => {
    if (!finished) body.reject(unreadable(invoker, handler.signal.reason, peer.requestId))
  }
  handler.signal.addEventListener('abort', onAbort, { once: true })
  return {
    admitted: admitted.promise,
    give: (message) => {
      finished = true
      body.resolve({ message })
    },
    response,
    toError,
    context,
  }
}

/** Why no message was read. The same text goes into Connect's own error, which the caller gets. */
function unreadable({ method }: Invoker, reason: unknown, requestId: string): Fault {
  if (!(reason instanceof ConnectError)) {
    return new Fault('cancelled', 'The caller went away', { cause: reason })
  }
  const fault = faultOf(reason, `The request cannot be read as a ${method.input.typeName}`)
  const { code, details } = toConnectError(fault, requestId)
  // Connect's text would quote what it could not read, and that may be anything.
  const known = fault.reason === 'cancelled' ? reason.code : code
  Object.assign(reason, { code: known, rawMessage: fault.message, details })
  return fault
}

function faultOf({ code, rawMessage }: ConnectError, text: string): Fault {
  switch (code) {
    case Code.ResourceExhausted:
      return new Fault('payload_too_large', rawMessage)
    case Code.Canceled:
    case Code.DeadlineExceeded:
      return new Fault('cancelled', rawMessage)
    default:
      return new Fault('malformed_request', text)
  }
}
