/** A stream outside of PostgreSQL that mirrors the log: its message n is the event at `after` + n. */
export interface MirrorStream {
  readonly name: string
  /** The epoch of the log that it mirrors. */
  readonly epoch: number
  /** The position in the log before its first message. */
  readonly after: bigint
  /** The position of its last message, even if that is not stored any more. */
  readonly end: bigint
  /** The last message that is still stored; undefined: none. */
  readonly last: { readonly position: bigint; readonly cursor: string } | undefined
  /** Whether it takes events: false once another one is to follow. */
  readonly isOpen: boolean
}

/** An event as a message. */
export interface EventMessage {
  readonly id: string
  readonly position: bigint
  readonly mode: 'live' | 'test'
  readonly businessId: string
  readonly kind: string
  /** Its place in the log, as subscribers of the service get it. */
  readonly cursor: string
  readonly epoch: number
  readonly contentType: string
  /** The traceparent of the event's payment; undefined: it has none. */
  readonly traceparent?: string | undefined
  readonly body: Uint8Array
}

/** Where the relay publishes the log: a broker that stores streams. */
export interface EventSink {
  /** The stream that was begun last; undefined: there is none. */
  latest(): Promise<MirrorStream | undefined>
  /** Makes a stream refuse further events. @returns it with its final end */
  end(stream: MirrorStream): Promise<MirrorStream>
  /**
   * Begins a stream at the position after `after`.
   *
   * @param previous the ended stream that it continues
   * @throws SinkConflict if another instance began one
   */
  begin(next: Pick<MirrorStream, 'epoch' | 'after'>, previous?: MirrorStream): Promise<void>
  /**
   * Appends an event to a stream. Calls may overlap, in the order of positions. Resolves when the
   * broker has stored it.
   *
   * @throws SinkConflict if the stream does not end just before this event
   */
  append(stream: MirrorStream, message: EventMessage): Promise<void>
  close(): Promise<void>
}

/** The stream is not what this instance knows: another instance relays as well. */
export class SinkConflict extends Error {
  override readonly name = 'SinkConflict'
}
