import { Fault } from '../core/errors.ts'

/** A position in the log of an epoch. Subscribers store it as an opaque, versioned text. */
export interface Cursor {
  /** Incremented after a restore, since positions may then belong to other events. */
  readonly epoch: number
  /** The position up to which all events were sent to the subscriber or filtered out. */
  readonly position: bigint
}

const FORMAT = /^v1\.(\d{1,9})\.(\d{1,18})$/

export function encodeCursor({ epoch, position }: Cursor): string {
  return Buffer.from(`v1.${epoch}.${position}`).toString('base64url')
}

/** @throws Fault invalid_cursor if the text is not a cursor of this service */
export function decodeCursor(text: string): Cursor {
  const match = FORMAT.exec(Buffer.from(text, 'base64url').toString('latin1'))
  if (!match) {
    throw new Fault('invalid_cursor', 'The cursor was not issued by this service', {
      fields: [{ field: 'cursor', message: 'must be the cursor of an event or a checkpoint' }],
    })
  }
  return { epoch: Number(match[1]), position: BigInt(match[2] as string) }
}
