import type { Message } from '@bufbuild/protobuf'
import type { Metadata, ServerUnaryCall, ServerWritableStream } from '@grpc/grpc-js'
import { Fault } from '../errors.ts'
import type { Origin } from './calls.ts'
import type { ClientUri } from './grpc-listener.ts'

/** A call of grpc-js, as far as where it comes from is concerned. */
type Rpc = Pick<
  ServerUnaryCall<Buffer, Buffer> | ServerWritableStream<Buffer, Buffer>,
  'metadata' | 'cancelled' | 'getPeer' | 'getDeadline'
> & { on(event: 'cancelled', listener: () => void): unknown }

/**
 * Where a gRPC call comes from. A class, because what few calls ask for is made when it is asked
 * for: this is on the path of every call.
 */
export class GrpcOrigin implements Origin {
  readonly door = 'grpc'
  readonly requestId: string
  readonly address: string
  readonly readMessage: () => Message
  rateLimit: Origin['rateLimit']
  readonly #rpc: Rpc
  readonly #uriOf: ClientUri
  #header: Headers | undefined
  #controller: AbortController | undefined
  #fault: Fault | undefined
  #open = true

  /** @param readMessage parses the bytes that came, once the caller is known */
  constructor(rpc: Rpc, requestId: string, uriOf: ClientUri, readMessage: () => Message) {
    this.readMessage = readMessage
    this.#rpc = rpc
    this.#uriOf = uriOf
    this.requestId = requestId
    this.address = withoutPort(rpc.getPeer())
  }

  get header(): Headers {
    this.#header ??= toHeaders(this.#rpc.metadata)
    return this.#header
  }

  /** Asked for only where there is no token. */
  get clientUri(): string | undefined {
    return this.#uriOf(this.#rpc.getPeer())
  }

  /** Its reason is a Fault, so that whoever throws it on answers with the right status. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      this.#rpc.on('cancelled', () => this.#gone())
      // A client that ends its half of the call after the deadline still reaches the handler,
      // and grpc-js reports no cancellation any more.
      if (this.#rpc.cancelled || hasPassed(this.#rpc)) this.#gone()
      if (this.#fault !== undefined) this.#controller.abort(this.#fault)
    }
    return this.#controller.signal
  }

  /** Aborts the signal with the fault as its reason, unless the call was answered before. */
  abort(fault: Fault): void {
    if (!this.#open) return
    this.#open = false
    this.#fault = fault
    this.#controller?.abort(fault)
  }

  /** States that the answer is complete. grpc-js reports that as a cancellation, too. */
  answered(): void {
    this.#open = false
  }

  #gone(): void {
    if (!this.#open) return
    const deadline = hasPassed(this.#rpc)
    const text = deadline ? 'The deadline of the call has passed' : 'The caller cancelled'
    this.abort(new Fault('cancelled', text))
  }
}

function hasPassed(rpc: Rpc): boolean {
  const deadline = rpc.getDeadline()
  return deadline !== Number.POSITIVE_INFINITY && Number(deadline) <= Date.now()
}

/** The text entries. Nothing that we read is binary. */
function toHeaders(metadata: Metadata): Headers {
  const headers = new Headers()
  const entries = metadata.toJSON()
  for (const key of Object.keys(entries)) {
    for (const value of entries[key] ?? []) {
      if (typeof value === 'string') headers.append(key, value)
    }
  }
  return headers
}

/** `127.0.0.1:5000` and `::1:5000` without the port. */
function withoutPort(peer: string): string {
  const end = peer.lastIndexOf(':')
  return end === -1 ? peer : peer.slice(0, end)
}
