import type { AccountResult, NextStep } from '../banks/bank.ts'
import { backoffMs } from '../core/backoff.ts'

/**
 * How far the opening of a pending account has come.
 *
 *     ASKING ──opened──▶ (active)      FREE   ──the business asks again──▶ ASKING
 *        ├──rejected──▶ (gone)         REPEAT ──anybody asks again──────▶ ASKING
 *        ├──unavailable──▶ FREE        QUERY  ──anybody asks the bank───▶ ASKING
 *        ├──no clear end──▶ REPEAT, QUERY or PERSON, as the bank allows
 *        └──who asked died──▶ the same, as its connector says
 */
export const OPENING_STATES = ['ASKING', 'FREE', 'REPEAT', 'QUERY', 'PERSON'] as const

export type OpeningState = (typeof OPENING_STATES)[number]

/** What is known of an opening before the bank is asked: `FREE` when nothing can be open yet. */
export type OpeningBefore = 'FREE' | 'REPEAT' | 'QUERY'

/** An opening as it is kept after an attempt that did not open the account. */
export interface Unopened {
  readonly state: Exclude<OpeningState, 'ASKING'>
  readonly cause: string
  /** When the service goes on by itself; undefined: it does not. */
  readonly nextTryAtMs: number | undefined
}

/** After so many attempts the bank will not say by itself. */
export const ATTEMPTS_MAX = 48

const BACKOFF = { minMs: 5_000, maxMs: 1_800_000 }

const STEPS: Readonly<Record<NextStep, 'REPEAT' | 'QUERY' | 'PERSON'>> = {
  retry: 'REPEAT',
  requery: 'QUERY',
  'manual review': 'PERSON',
}

export const stateOf = (next: NextStep): 'REPEAT' | 'QUERY' | 'PERSON' => STEPS[next]

/** @param attempt which attempt had the result, from 1 */
export function unopened(
  result: Extract<AccountResult, { kind: 'unavailable' | 'unknown' }>,
  attempt: number,
  nowMs: number,
): Unopened {
  const { cause } = result
  if (result.kind === 'unavailable') return { state: 'FREE', cause, nextTryAtMs: undefined }
  const state = stateOf(result.next)
  if (state === 'PERSON') return { state, cause, nextTryAtMs: undefined }
  if (attempt >= ATTEMPTS_MAX) {
    const text = `no clear end after ${attempt} attempts; the last: ${cause}`
    return { state: 'PERSON', cause: text, nextTryAtMs: undefined }
  }
  return { state, cause, nextTryAtMs: nowMs + backoffMs(attempt, BACKOFF) }
}
