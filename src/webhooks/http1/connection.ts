import type { Socket } from 'node:net'
import type { Connect, Peer } from '../connect.ts'
import { AnswerReader } from './answer-reader.ts'
import { NoAnswerError } from './no-answer-error.ts'

/** One request and what comes of it. */
export interface Exchange {
  /** Head and body. */
  readonly request: Buffer
  /** Where it is under way. Set when it is sent. */
  connection: Connection | undefined
  readonly isOver: boolean
  /**
   * Called once.
   *
   * @param answer what came of an answer; one with a status counts, whatever the error
   * @param error why it is not whole, if so
   */
  ended(answer: AnswerReader | undefined, error: Error | undefined): void
}

/** What is told of a connection to whoever has it. */
export interface ConnectionOwner {
  /** It may be used again, until its `freeUntilMs`. */
  freed(connection: Connection): void
  /** It cannot be used any more. */
  closed(connection: Connection): void
}

/**
 * A connection to a receiver, with one request under way at most. What a receiver sends that nobody
 * waits for ends it, as it would be taken for the answer of the next request.
 */
export class Connection {
  readonly origin: string
  /** When it is free: since when, and until when it may be used again, on the monotonic clock. */
  freeSinceMs = 0
  freeUntilMs = 0
  readonly #owner: ConnectionOwner
  /** Undefined until it has begun to connect. */
  #socket: Socket | undefined
  #closed = false
  #exchange: Exchange | undefined
  #answer: AnswerReader | undefined

  /** Connects, and sends the first request then. */
  constructor(peer: Peer, first: Exchange, connect: Connect, owner: ConnectionOwner) {
    this.origin = peer.origin
    this.#owner = owner
    this.#exchange = first
    first.connection = this
    try {
      this.#socket = connect(peer, (error, socket) => {
        if (error) this.close(error)
        else this.#opened(socket)
      })
    } catch (error) {
      queueMicrotask(() => this.close(new Error('cannot connect', { cause: error })))
    }
  }

  get isClosed(): boolean {
    // A socket that failed tells of it a little later.
    return this.#closed || this.#socket?.destroyed === true
  }

  /** Only while it is free. */
  send(exchange: Exchange): void {
    this.#exchange = exchange
    exchange.connection = this
    this.#socket?.ref()
    this.#write(exchange)
  }

  /** Ends the request that is under way. @param error why */
  close(error: Error): void {
    if (this.#closed) return
    this.#closed = true
    this.#socket?.destroy()
    const answer = this.#answer
    this.#owner.closed(this)
    this.#take()?.ended(answer, error)
  }

  /** Closes it, and waits until it is. */
  async destroy(error: Error): Promise<void> {
    this.close(error)
    const socket = this.#socket
    if (socket === undefined || socket.closed) return
    await new Promise<void>((resolve) => socket.once('close', () => resolve()))
  }

  #opened(socket: Socket): void {
    if (this.#closed) {
      socket.destroy()
      return
    }
    this.#socket = socket
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('end', () => this.#end())
    socket.on('error', (error) => this.close(error))
    socket.on('close', () => this.#end())
    if (this.#exchange) this.#write(this.#exchange)
  }

  #write(exchange: Exchange): void {
    this.#answer = new AnswerReader()
    this.#socket?.write(exchange.request)
  }

  #read(chunk: Buffer): void {
    const answer = this.#answer
    if (answer === undefined) this.#end()
    else if (answer.read(chunk)) this.#finish(answer)
  }

  #finish(answer: AnswerReader): void {
    // One that answers before it has read a large request may never read the rest of it. A small one
    // is with the system already, though TLS may tell of it only after the answer.
    if (answer.keptMs === 0 || this.#socket?.writableNeedDrain !== false) {
      this.close(new NoAnswerError(answer.fault))
      return
    }
    const exchange = this.#take()
    // What is free does not keep the process going.
    this.#socket.unref()
    this.freeSinceMs = performance.now()
    this.freeUntilMs = this.freeSinceMs + answer.keptMs
    this.#owner.freed(this)
    exchange?.ended(answer, undefined)
  }

  /** The receiver closes it, or has to be left. */
  #end(): void {
    this.close(new NoAnswerError('connection closed without an answer'))
  }

  #take(): Exchange | undefined {
    const exchange = this.#exchange
    this.#exchange = undefined
    this.#answer = undefined
    return exchange
  }
}
