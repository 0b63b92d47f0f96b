import { Fault } from '../core/errors.ts'

/** An operator has to act first, which takes minutes. */
const RETRY_AFTER_SECONDS = 300

/** Marks a result as denied access; see `Refusal`. */
export const DENIED = { refusal: 'access' } as const

/**
 * What a caller gets if a bank denies this service access: it cannot know the operator's settings, and
 * repeating the request at once changes nothing.
 *
 * @param cause the bank's response, for the log
 */
export function accessDenied(cause: unknown): Fault {
  const text =
    'The bank denies this service access, and its operator has to restore it; repeat the request later'
  return new Fault('bank_unavailable', text, { retryAfterSeconds: RETRY_AFTER_SECONDS, cause })
}
