import { invalidFields } from '../../core/errors.ts'
import { pageTokenOf } from '../../postgres/page-token.ts'
import type { BalanceKey } from '../settlement.ts'

/** Where a verification continues. Times by the database's clock, in epoch milliseconds. */
export interface VerificationCursor {
  /** What was written before was verified earlier. */
  readonly sinceMs: number
  /** When this verification began: the next one continues there. */
  readonly startedAtMs: number
  /** The last balance that was verified; undefined: the verification has not begun. */
  readonly after: BalanceKey | undefined
}

export function encodeCursor({ sinceMs, startedAtMs, after }: VerificationCursor): string {
  return pageTokenOf([
    `${sinceMs}`,
    `${startedAtMs}`,
    ...(after === undefined ? [] : [after.businessId, `${after.live}`]),
  ])
}

/** @throws Fault validation_failed */
export function decodeCursor(text: string): VerificationCursor {
  const parts = partsOf(text)
  const [sinceMs, startedAtMs] = parts.slice(0, 2).map(Number)
  const [, , businessId, live] = parts
  if (
    (parts.length !== 2 && parts.length !== 4) ||
    !isTime(sinceMs) ||
    !isTime(startedAtMs) ||
    (live !== undefined && live !== 'true' && live !== 'false')
  ) {
    throw invalidFields([{ field: 'from', message: 'is not a cursor of a verification' }])
  }
  const after = businessId === undefined ? undefined : { businessId, live: live === 'true' }
  return { sinceMs, startedAtMs, after }
}

function partsOf(text: string): string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    const isText = (part: unknown) => typeof part === 'string' && !part.includes('\0')
    return Array.isArray(parts) && parts.every(isText) ? parts : []
  } catch {
    return []
  }
}

/** A time that PostgreSQL and ids can hold. */
function isTime(ms: number | undefined): ms is number {
  return Number.isInteger(ms) && ms !== undefined && ms >= 0 && ms < 32 ** 9
}
