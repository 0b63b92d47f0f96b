/** A stream outside PostgreSQL that mirrors the log: its message n is the event at position `after` + n. */
export interface MirrorStream {
  readonly name: string
  /** The epoch of the mirrored log. */
  readonly epoch: number
  /** The position in the log before its first message. */
  readonly after: bigint
  /** The position of its last message, even if the message is no longer stored. */
  readonly end: bigint
  /** The last message that is still stored; undefined: none. */
  readonly last: { readonly position: bigint; readonly cursor: string } | undefined
  /** Whether the stream accepts events: false once another stream is to follow. */
  readonly isOpen: boolean
}

/** An event as a message. */
export interface EventMessage {
  readonly id: string
  readonly position: bigint
  readonly mode: 'live' | 'test'
  readonly businessId: string
  readonly kind: string
  /** The cursor of the event, as subscribers of the service get it. */
  readonly cursor: string
  readonly epoch: number
  readonly contentType: string
  /** The traceparent of the event's payment; undefined: it has none. */
  readonly traceparent?: string | undefined
  readonly body: Uint8Array
}

/** A broker that stores streams, to which the relay publishes the log. */
export interface EventSink {
  /** The stream that began last; undefined: there is none. */
  latest(): Promise<MirrorStream | undefined>
  /** Makes a stream refuse further events. @returns the stream with its final end */
  end(stream: MirrorStream): Promise<MirrorStream>
  /**
   * Begins a stream at the position after `after`.
   *
   * @param previous the ended stream that it continues
   * @throws SinkConflict if another instance began a stream
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

/** The stream has changed since this instance read it: another instance relays as well. */
export class SinkConflict extends Error {
  override readonly name = 'SinkConflict'
}
