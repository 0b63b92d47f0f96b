import type { RequestHead } from './request-head.ts'

/** What is told of a stream. After `closed`, nothing is. */
export interface StreamListener {
  /** A part of the body: `bytes` from `start` to `end`. They may be kept. */
  data(bytes: Buffer, start: number, end: number): void
  /** The request is complete. */
  ended(): void
  /** All that waited to be sent was. */
  writable(): void
  /** The stream was reset by either end, or its connection is lost; an answer came to no end. */
  closed(): void
}

/** One stream of a connection, as far as both directions of it go. */
export class Http2Stream {
  readonly id: number
  readonly head: RequestHead
  /** When it began, in milliseconds of `performance.now()`. */
  readonly startedMs: number
  listener: StreamListener | undefined
  /** What may be sent, and what may come. */
  sendWindow: number
  receiveWindow: number
  /** Whether the client's half is over, and whether ours is. */
  remoteEnded: boolean
  localEnded = false
  /** Whether it is gone from its connection. */
  closed = false
  receivedBytes = 0
  /** What an incomplete request counts for its address. */
  pendingBytes = 0
  /** What waits to be sent: the block of headers, the rest of the body, the trailers. */
  waitingHead: Buffer | undefined
  waitingBody: Uint8Array[] | undefined
  waitingFrom = 0
  waitingBytes = 0
  waitingTail: Buffer | undefined

  constructor(
    id: number,
    head: RequestHead,
    ended: boolean,
    windows: { readonly send: number; readonly receive: number },
    startedMs: number,
  ) {
    this.id = id
    this.head = head
    this.remoteEnded = ended
    this.sendWindow = windows.send
    this.receiveWindow = windows.receive
    this.startedMs = startedMs
  }
}
