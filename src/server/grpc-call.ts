import type { Message } from '@bufbuild/protobuf'
import { Fault } from '../errors.ts'
import type { Origin } from './calls.ts'
import { messageFault, readCompressed } from './grpc-compression.ts'
import {
  MESSAGE_BYTES_MAX,
  MessageReader,
  MessageTooLarge,
  onlyMessage,
  type TakeMessage,
} from './grpc-messages.ts'
import { answerHead, parseTimeout, toHeaders } from './grpc-metadata.ts'
import type { CallHost, GrpcMethod } from './grpc-method.ts'
import { type GrpcStatus, OK_TRAILERS, RESPONSE, RPC_STATUS, statusHeaders } from './grpc-status.ts'
import type { Http2Connection } from './http2/connection.ts'
import type { Timed } from './http2/deadlines.ts'
import { encodeHeaders, encodeText } from './http2/hpack-encoder.ts'
import type { Http2Stream, StreamListener } from './http2/stream.ts'

/**
 * One call of gRPC. It is where the call comes from, too, and a class, because what few ask for is
 * made when it is asked for: this is on the path of every call.
 */
export class GrpcCall implements Origin, StreamListener, Timed {
  readonly door = 'grpc'
  readonly requestId: string
  readonly address: string
  readonly method: GrpcMethod
  rateLimit: Origin['rateLimit']
  dueMs = 0
  slot = -1
  /** Told when what was written has gone out. */
  onWritable: (() => void) | undefined
  /** Told of messages and of their end, where there are many. */
  onMessage: ((message: Buffer | undefined) => void) | undefined
  /** Told when the call is over, however it ended. */
  onClose: (() => void) | undefined
  readonly #stream: Http2Stream
  readonly #connection: Http2Connection
  readonly #host: CallHost
  #reader: MessageReader | undefined
  #message: Buffer | undefined
  #flag = 0
  #responded = false
  /** Whether its end has been told, or cannot be any more. */
  #over = false
  #header: Headers | undefined
  #controller: AbortController | undefined
  #fault: Fault | undefined

  constructor(
    stream: Http2Stream,
    connection: Http2Connection,
    method: GrpcMethod,
    host: CallHost,
  ) {
    this.#stream = stream
    this.#connection = connection
    this.#host = host
    this.method = method
    this.address = connection.address
    this.requestId = host.requestIds()
    const { grpcTimeout } = stream.head
    if (grpcTimeout !== undefined) this.#limitTime(grpcTimeout)
  }

  get over(): boolean {
    return this.#over
  }

  get header(): Headers {
    this.#header ??= toHeaders(this.#stream.head.fields)
    return this.#header
  }

  get authorization(): string | null {
    return this.#stream.head.authorization ?? null
  }

  /** Asked for only where there is no token. */
  get clientUri(): string | undefined {
    const { identity } = this.#connection
    return identity && identity.expiresMs > Date.now() ? identity.uri : undefined
  }

  /** Its reason is a Fault, so that whoever throws it on answers with the right status. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#fault !== undefined) this.#controller.abort(this.#fault)
    }
    return this.#controller.signal
  }

  /** Aborts the signal with the fault as its reason, unless the call is over. */
  abort(fault: Fault): void {
    if (!this.#over) this.#gone(fault)
  }

  readMessage(): Message | Promise<Message> {
    const bytes = this.readBytes()
    return bytes instanceof Promise ? bytes.then(this.method.decode) : this.method.decode(bytes)
  }

  /** The one message that came. @throws Fault, or rejects with one, when it cannot be expanded */
  readBytes(): Buffer | Promise<Buffer> {
    const message = this.#message ?? Buffer.alloc(0)
    if (this.#flag === 0) return message
    return readCompressed(this.#flag, this.#stream.head.grpcEncoding, message)
  }

  /** Answers with one message, and is done. */
  answer(message: Uint8Array, headers: Headers | undefined): void {
    if (this.#over) return
    this.#finish()
    const { sender } = this.#connection
    sender.answer(this.#stream, answerHead(headers), this.requestId, message, OK_TRAILERS)
    this.#connection.boundWaiting(this.#stream)
  }

  /** Sends the headers of an answer with many messages. */
  respond(headers: Headers | undefined): void {
    if (this.#over || this.#responded) return
    this.#responded = true
    const head = Buffer.concat([answerHead(headers), encodeText(this.requestId)])
    this.#connection.sender.respond(this.#stream, head)
  }

  /**
   * Sends a message, framed.
   *
   * @returns whether it went out; when not, no more should come before `onWritable`
   */
  write(framed: Buffer): boolean {
    if (this.#over) return false
    const sent = this.#connection.sender.write(this.#stream, framed)
    if (!sent) this.#connection.boundWaiting(this.#stream)
    return sent
  }

  /** Ends an answer with many messages. */
  end(): void {
    if (this.#over) return
    this.#finish()
    this.#connection.sender.end(this.#stream, OK_TRAILERS)
  }

  fail(status: GrpcStatus): void {
    if (this.#over) return
    this.#finish()
    const { sender } = this.#connection
    const fields = statusHeaders(status)
    if (this.#responded) sender.end(this.#stream, encodeHeaders(fields))
    else sender.end(this.#stream, encodeHeaders([...RESPONSE, ...fields]))
    this.#connection.boundWaiting(this.#stream)
  }

  /** Ends the call for taking more than it may. */
  refuse(): void {
    this.#connection.refuse(this.#stream)
  }

  data(bytes: Buffer, start: number, end: number): void {
    if (this.#reader === undefined) {
      const message = onlyMessage(bytes, start, end)
      if (message !== undefined && message.length <= MESSAGE_BYTES_MAX) {
        this.#take(bytes[start] as number, message)
        return
      }
      this.#reader = new MessageReader()
    }
    try {
      this.#reader.read(bytes, start, end, this.#takeEach)
    } catch (error) {
      if (!(error instanceof MessageTooLarge)) throw error
      this.fail(RPC_STATUS.tooLarge(error.message, MESSAGE_BYTES_MAX))
    }
  }

  ended(): void {
    if (this.#over) return
    const { method } = this
    if (method.requestStream === true) this.onMessage?.(undefined)
    else if (this.#message !== undefined) method.handle(this)
    else this.fail(RPC_STATUS.messages(`Received no request message for ${method.path}`))
  }

  writable(): void {
    this.onWritable?.()
  }

  closed(): void {
    if (!this.#over) {
      this.#finish()
      this.#gone(new Fault('cancelled', 'The caller cancelled'))
    }
    this.onClose?.()
  }

  expired(): void {
    if (this.#over) return
    this.fail(RPC_STATUS.deadline)
    this.#gone(new Fault('cancelled', 'The deadline of the call has passed'))
  }

  readonly #takeEach: TakeMessage = (flag, message) => this.#take(flag, message)

  #take(flag: number, message: Buffer): void {
    if (this.#over) return
    const fault = messageFault(flag, this.#stream.head.grpcEncoding)
    if (fault !== undefined) {
      this.fail(fault)
      return
    }
    if (this.method.requestStream === true) {
      if (flag === 0) this.onMessage?.(message)
      else this.fail(RPC_STATUS.messages(`${this.method.path} takes no compressed messages`))
    } else if (this.#message === undefined) {
      this.#message = message
      this.#flag = flag
    } else {
      const text = `Received a second request message for ${this.method.path}`
      this.fail(RPC_STATUS.messages(text))
    }
  }

  #limitTime(text: string): void {
    const timeoutMs = parseTimeout(text)
    if (timeoutMs === undefined) {
      this.fail(RPC_STATUS.badTimeout(text))
      return
    }
    this.dueMs = performance.now() + timeoutMs
    this.#host.deadlines.add(this)
  }

  #finish(): void {
    this.#over = true
    if (this.slot !== -1) this.#host.deadlines.remove(this)
  }

  #gone(fault: Fault): void {
    this.#fault ??= fault
    this.#controller?.abort(this.#fault)
  }
}
