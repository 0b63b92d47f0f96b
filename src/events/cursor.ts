import { Fault } from '../core/errors.ts'

/** A place in the log, as subscribers keep it: opaque, and versioned. */
export interface Cursor {
  /** Raised after a restore, when positions may mean other events. */
  readonly epoch: number
  /** The position of the last event seen. */
  readonly position: bigint
}

const FORM = /^v1\.(\d{1,9})\.(\d{1,18})$/

export function encodeCursor({ epoch, position }: Cursor): string {
  return Buffer.from(`v1.${epoch}.${position}`).toString('base64url')
}

/** @throws Fault invalid_cursor on a text that this service did not make */
export function decodeCursor(text: string): Cursor {
  const match = FORM.exec(Buffer.from(text, 'base64url').toString('latin1'))
  if (!match) {
    throw new Fault('invalid_cursor', 'The cursor is not one of this service', {
      fields: [
        { field: 'cursor', message: 'must be a cursor that an event or checkpoint carried' },
      ],
    })
  }
  return { epoch: Number(match[1]), position: BigInt(match[2] as string) }
}
