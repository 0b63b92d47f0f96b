import { Fault } from '../core/errors.ts'

/** A place in the event log. Subscribers store a cursor as an opaque, versioned text. */
export interface Cursor {
  /** Rises after a failover or a restore, since positions may then belong to other events. */
  readonly epoch: number
  /** The position up to which all events were sent to the subscriber or filtered out. */
  readonly position: bigint
  /**
   * The end of the id of the event at the position, which distinguishes it from another event that got the
   * same position after a restore; empty: the event is not known.
   */
  readonly tag: string
}

const FORMAT = /^v2\.(\d{1,9})\.(\d{1,18})\.(\w{0,6})$/

/** The tag of an event. */
export function tagOf(eventId: string): string {
  return eventId.slice(-6)
}

export function encodeCursor({ epoch, position, tag }: Cursor): string {
  return Buffer.from(`v2.${epoch}.${position}.${tag}`).toString('base64url')
}

/** @throws Fault invalid_cursor if the text is not a cursor of this service */
export function decodeCursor(text: string): Cursor {
  const match = FORMAT.exec(Buffer.from(text, 'base64url').toString('latin1'))
  if (!match) {
    throw new Fault('invalid_cursor', 'The cursor was not issued by this service', {
      fields: [{ field: 'cursor', message: 'must be the cursor of an event or a checkpoint' }],
    })
  }
  const [, epoch, position = '', tag = ''] = match
  return { epoch: Number(epoch), position: BigInt(position), tag }
}
