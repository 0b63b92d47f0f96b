import type { NamedConnector } from '../../banks/bank.ts'
import type { RequestedAccount } from '../account.ts'
import {
  type OpeningState,
  openingStateOf,
  type PendingOpening,
  type PriorState,
  pendingOpening,
} from './opening.ts'

/** A PENDING account that a call has claimed, and what was tried before. */
interface ClaimedOpening {
  readonly account: Pick<RequestedAccount, 'connector'>
  readonly attempt: number
  /** The state before this attempt; `CREATING` if the process of the latest attempt died. */
  readonly priorState: OpeningState
  /** Whether a caller waits for the account. */
  readonly requested: boolean
}

/** How an attempt goes on from the ones before. */
type Resumption =
  | {
      readonly kind: 'ask'
      readonly served: NamedConnector
      readonly priorState: PriorState
    }
  /** Nothing is open, and another connector than before opens the account. */
  | { readonly kind: 'switch'; readonly served: NamedConnector }
  /** No bank is asked now. */
  | { readonly kind: 'pending'; readonly opening: PendingOpening }

/**
 * Decides whom an attempt asks. The sandbox opens nothing of what a bank was asked to open, as that
 * may be open there; and a bank knows nothing of what the sandbox was asked to open.
 *
 * @param served the connector that serves the bank now; undefined: there is none
 */
export function resumeOpening(
  { account, attempt, priorState, requested }: ClaimedOpening,
  served: NamedConnector | undefined,
  nowMs: number,
): Resumption {
  if (served?.name === account.connector) {
    const { connector } = served
    const state = priorState === 'CREATING' ? openingStateOf(connector.afterCrash) : priorState
    if (state !== 'MANUAL_REVIEW') return { kind: 'ask', served, priorState: state }
    const cause = 'the process that asked the bank died'
    return { kind: 'pending', opening: { state, cause, nextTryAtMs: undefined } }
  }
  if (account.connector === 'live' && priorState !== 'RETRYABLE') {
    const cause = 'the bank may have opened it, and is no longer live here'
    const next = priorState === 'RETRYING' ? 'retry' : 'requery'
    return {
      kind: 'pending',
      opening: pendingOpening({ kind: 'unknown', cause, next }, attempt, nowMs),
    }
  }
  if (served !== undefined && requested) return { kind: 'switch', served }
  const cause = 'the connector that was asked before no longer serves the bank'
  const opening = { state: 'RETRYABLE', cause, nextTryAtMs: undefined } as const
  return { kind: 'pending', opening }
}
