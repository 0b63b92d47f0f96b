import type { AccountResult, NextStep, Refusal } from '../banks/bank.ts'
import { backoffMs } from '../core/backoff.ts'

/**
 * What happens next to a PENDING account.
 *
 *     CREATING ──opened──▶ (ACTIVE)    RETRYABLE  ──the business repeats its request──▶ CREATING
 *        ├──rejected──▶ (deleted)      RETRYING   ──the service or the business retries─▶ CREATING
 *        ├──unavailable──▶ RETRYABLE   REQUERYING ──the service or the business asks ───▶ CREATING
 *        ├──unclear──▶ RETRYING, REQUERYING or MANUAL_REVIEW, as the bank allows
 *        └──the process died──▶ the same, as the bank's connector says
 */
export const OPENING_STATES = [
  'CREATING',
  'RETRYABLE',
  'RETRYING',
  'REQUERYING',
  'MANUAL_REVIEW',
] as const

export type OpeningState = (typeof OPENING_STATES)[number]

/** The state before an attempt at the bank: `RETRYABLE` if nothing can be open yet. */
export type PriorState = 'RETRYABLE' | 'RETRYING' | 'REQUERYING'

/** An opening after an attempt that did not open the account. */
export interface PendingOpening {
  readonly state: Exclude<OpeningState, 'CREATING'>
  readonly cause: string
  /** When the service tries again by itself; undefined if it does not. */
  readonly nextTryAtMs: number | undefined
  readonly refusal?: Refusal
}

/** After this many unclear attempts the account goes to manual review. */
export const ATTEMPTS_MAX = 48

const BACKOFF = { minMs: 5_000, maxMs: 1_800_000 }

const STATES: Readonly<Record<NextStep, 'RETRYING' | 'REQUERYING' | 'MANUAL_REVIEW'>> = {
  retry: 'RETRYING',
  requery: 'REQUERYING',
  'manual review': 'MANUAL_REVIEW',
}

export const openingStateOf = (next: NextStep) => STATES[next]

/** @param attempt which attempt had the result, from 1 */
export function pendingOpening(
  result: Extract<AccountResult, { kind: 'unavailable' | 'unknown' }>,
  attempt: number,
  nowMs: number,
): PendingOpening {
  const { cause } = result
  const refusal = result.refusal && { refusal: result.refusal }
  if (result.kind === 'unavailable') {
    return { state: 'RETRYABLE', cause, nextTryAtMs: undefined, ...refusal }
  }
  const state = openingStateOf(result.next)
  if (state === 'MANUAL_REVIEW') return { state, cause, nextTryAtMs: undefined }
  if (attempt >= ATTEMPTS_MAX) {
    const text = `no clear result after ${attempt} attempts; the last: ${cause}`
    return { state: 'MANUAL_REVIEW', cause: text, nextTryAtMs: undefined }
  }
  return { state, cause, nextTryAtMs: nowMs + backoffMs(attempt, BACKOFF), ...refusal }
}
