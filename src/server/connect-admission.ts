import type { Message } from '@bufbuild/protobuf'
import {
  Code,
  ConnectError,
  type HandlerContext,
  type StreamResponse,
  type UnaryResponse,
} from '@connectrpc/connect'
import { Fault } from '../errors.ts'
import type { Call, Origin } from './calls.ts'
import { toConnectError, toFault } from './status.ts'

/** A call that has begun, and whose message has not been read. */
export interface Admission {
  /** Comes true when the message is wanted. Rejects with the answer of a call that is refused. */
  readonly admitted: Promise<void>
  /** Hands the message over. */
  give(message: Message): void
  /** What the call comes to. Rejects with a ConnectError. */
  readonly answer: Promise<UnaryResponse | StreamResponse>
  toError(error: unknown): ConnectError
  readonly origin: Origin
}

/** Who is at the other end of a call. */
export type Peer = Pick<Origin, 'address' | 'requestId'> & Required<Pick<Origin, 'abort'>>

/**
 * Begins a call: the caller is made known before a byte of the body is read. What Connect then
 * cannot read, it tells in its own words; here it gets the details of all our errors.
 */
export function admit(call: Call, context: HandlerContext, peer: Peer): Admission {
  const admitted = Promise.withResolvers<void>()
  const body = Promise.withResolvers<Message>()
  // Whoever is refused never asks for the body.
  body.promise.catch(() => undefined)
  let settled = false
  const origin: Origin = {
    door: 'connect',
    header: context.requestHeader,
    signal: context.signal,
    ...peer,
    readMessage: () => {
      admitted.resolve()
      return body.promise
    },
  }
  const toError = (error: unknown) =>
    error instanceof ConnectError ? error : toConnectError(toFault(error), peer.requestId)
  const begun =
    call.method.methodKind === 'unary'
      ? call.unary(undefined, origin)
      : call.stream(undefined, origin)
  const answer = begun.catch((error: unknown) => {
    settled = true
    throw toError(error)
  })
  // A stream asks for its message when it is pulled, which is after the gate.
  answer.then(() => admitted.resolve(), admitted.reject)
  const ended = () => {
    if (!settled) body.reject(unreadable(call, context.signal.reason, peer.requestId))
  }
  context.signal.addEventListener('abort', ended, { once: true })
  return {
    admitted: admitted.promise,
    give: (message) => {
      settled = true
      body.resolve(message)
    },
    answer,
    toError,
    origin,
  }
}

/** Why no message came. Connect's own error, which is on its way to the caller, is told it too. */
function unreadable({ method }: Call, reason: unknown, requestId: string): Fault {
  if (!(reason instanceof ConnectError)) {
    return new Fault('cancelled', 'The caller went away', { cause: reason })
  }
  const fault = faultOf(reason, `The request cannot be read as a ${method.input.typeName}`)
  const { code, details } = toConnectError(fault, requestId)
  // Its text would quote what could not be read, and that may be anything.
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
