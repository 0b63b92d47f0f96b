import type { Message } from '@bufbuild/protobuf'
import type { ServerUnaryCall, ServerWritableStream } from '@grpc/grpc-js'
import { Fault } from '../../core/errors.ts'
import type { CallContext } from '../rpc/call-context.ts'
import type { Decoded } from '../rpc/invokers.ts'
import type { GrpcConnection } from './connection.ts'
import { toHeaders } from './metadata.ts'

/** The bytes of a request. A box, because grpc-js keeps the request while the call is open. */
export interface RequestBox {
  bytes: Buffer | undefined
}

/** The part of a grpc-js call that states where it comes from. */
type Rpc = Pick<
  ServerUnaryCall<RequestBox, Buffer> | ServerWritableStream<RequestBox, Buffer>,
  'request' | 'metadata' | 'cancelled' | 'getDeadline'
> & { on(event: 'cancelled', listener: () => void): unknown }

/**
 * The context of a gRPC call. A class, so that what few calls need is made only when it is read: this
 * is on the path of every call.
 */
export class GrpcCallContext implements CallContext {
  readonly protocol = 'grpc'
  readonly requestId: string
  readonly connection: GrpcConnection | undefined
  rateLimit: CallContext['rateLimit']
  span: CallContext['span']
  readonly #rpc: Rpc
  readonly #decodeMessage: (bytes: Buffer) => Message
  #header: Headers | undefined
  #controller: AbortController | undefined
  #fault: Fault | undefined
  #open = true

  /** @param connection undefined: it has closed already */
  constructor(
    rpc: Rpc,
    requestId: string,
    connection: GrpcConnection | undefined,
    decodeMessage: (bytes: Buffer) => Message,
  ) {
    this.#rpc = rpc
    this.requestId = requestId
    this.connection = connection
    this.#decodeMessage = decodeMessage
  }

  get address(): string {
    return this.connection?.address ?? ''
  }

  get header(): Headers {
    this.#header ??= toHeaders(this.#rpc.metadata)
    return this.#header
  }

  get authorization(): string | null {
    const [value] = this.#rpc.metadata.get('authorization')
    return typeof value === 'string' ? value : null
  }

  get traceparent(): string | undefined {
    const [value] = this.#rpc.metadata.get('traceparent')
    return typeof value === 'string' ? value : undefined
  }

  /** Read only for a call without a token. */
  get clientUri(): string | undefined {
    return this.connection?.clientUri
  }

  /** Its reason is a Fault, so that code that throws the reason gives the right status. */
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

  /**
   * Decodes the request, once.
   *
   * @throws Fault malformed_request
   */
  readonly decode = (): Decoded => {
    const { bytes = Buffer.alloc(0) } = this.#rpc.request
    this.#rpc.request.bytes = undefined
    return { message: this.#decodeMessage(bytes) }
  }

  /** Aborts the signal with the fault as its reason, unless the call has a response. */
  abort(fault: Fault): void {
    if (!this.#open) return
    this.#open = false
    this.#fault = fault
    this.#controller?.abort(fault)
  }

  /** Marks the response as complete. grpc-js reports completion as a cancellation too. */
  responded(): void {
    this.#open = false
    this.#rpc.request.bytes = undefined
  }

  #gone(): void {
    if (!this.#open) return
    const text = hasPassed(this.#rpc)
      ? 'The deadline of the call has passed'
      : 'The caller cancelled'
    this.abort(new Fault('cancelled', text))
  }
}

function hasPassed(rpc: Rpc): boolean {
  const deadline = rpc.getDeadline()
  return deadline !== Number.POSITIVE_INFINITY && Number(deadline) <= Date.now()
}
