import type { Message } from '@bufbuild/protobuf'
import {
  Code,
  ConnectError,
  createContextKey,
  type HandlerContext,
  type StreamResponse,
  type UnaryResponse,
} from '@connectrpc/connect'
import { Fault } from '../../core/errors.ts'
import { errorHeaders } from '../rest/envelope.ts'
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
  /** Whether the body was larger than it may be. */
  isTooLarge(): boolean
}

/** The other end of a call. */
export type Peer = Pick<CallContext, 'address' | 'requestId' | 'session'> &
  Required<Pick<CallContext, 'abort'>>

/** The other end of an HTTP request. */
export const peerKey = createContextKey<Peer>({
  address: '',
  requestId: '',
  abort: () => undefined,
})

export const admissionKey = createContextKey<Admission | undefined>(undefined)

/** What a call is begun with. */
interface Arrival {
  readonly invoker: Invoker
  readonly handler: HandlerContext
  readonly peer: Peer
  /** The largest body, in bytes. */
  readonly bytesMax: number
}

/**
 * Begins a call: the caller is authenticated before a byte of the body is read. An error of Connect
 * about the body gets the details that all our errors have.
 */
export function admit({ invoker, handler, peer, bytesMax }: Arrival): Admission {
  const admitted = Promise.withResolvers<void>()
  const body = Promise.withResolvers<Decoded>()
  // A call that is refused never reads its body.
  body.promise.catch(() => undefined)
  let finished = false
  let tooLarge = false
  const context: CallContext = {
    protocol: 'connect',
    header: handler.requestHeader,
    signal: handler.signal,
    traceparent: handler.requestHeader.get('traceparent') ?? undefined,
    ...peer,
  }
  const decode = () => {
    admitted.resolve()
    return body.promise
  }
  const toError = (error: unknown) => {
    if (error instanceof ConnectError) return error
    const fault = toFault(error)
    const refused = toConnectError(fault, peer.requestId)
    for (const [name, value] of Object.entries(errorHeaders(fault))) {
      refused.metadata.set(name, value)
    }
    return refused
  }
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
    if (finished) return
    const fault = toUnreadable(handler.signal.reason, invoker, bytesMax)
    tooLarge = fault.reason === 'payload_too_large'
    restate(handler.signal.reason, fault, peer.requestId)
    body.reject(fault)
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
    isTooLarge: () => tooLarge,
  }
}

/** Why no message was read. */
function toUnreadable(reason: unknown, { method }: Invoker, bytesMax: number): Fault {
  if (!(reason instanceof ConnectError)) {
    return new Fault('cancelled', 'The caller went away', { cause: reason })
  }
  if (reason.cause instanceof Fault) return reason.cause
  switch (reason.code) {
    case Code.ResourceExhausted:
      return new Fault('payload_too_large', `The body is larger than ${sizeText(bytesMax)}`)
    case Code.Canceled:
    case Code.DeadlineExceeded:
      return new Fault('cancelled', reason.rawMessage)
    default:
      return new Fault(
        'malformed_request',
        `The request cannot be read as an ${method.input.typeName}${placeIn(reason.rawMessage)}`,
      )
  }
}

/** Where a parser of JSON found the fault. The rest of its text would quote what it could not read. */
function placeIn(text: string): string {
  const field = /cannot decode field (?:\w+\.)*(\w+) from JSON/.exec(text)?.[1]
  if (field !== undefined) return `: see the field ${field}`
  const [, line, column] = /\(line (\d+) column (\d+)\)$/.exec(text) ?? []
  return line === undefined ? '' : `: see line ${line}, column ${column}`
}

/** Puts a fault into Connect's own error, which the caller gets: its text would quote what it could not read. */
function restate(reason: unknown, fault: Fault, requestId: string): void {
  if (!(reason instanceof ConnectError)) return
  const { code, details } = toConnectError(fault, requestId)
  const known = fault.reason === 'cancelled' ? reason.code : code
  Object.assign(reason, { code: known, rawMessage: fault.message, details })
}

function sizeText(bytes: number): string {
  return bytes < 1_048_576 ? `${bytes / 1_024} KiB` : `${bytes / 1_048_576} MiB`
}
