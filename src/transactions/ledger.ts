import type { TransactionStatus } from './transaction.ts'

/**
 * Where a transaction is: its status, and whether it is settled.
 *
 *     PENDING ──payment──▶ SUCCESS ──settlement, fee──▶ SUCCESS, settled
 *        │                    │                                │
 *        ▼             payment_reversal        fee_, settlement_, payment_reversal
 *      FAILED                 ▼                                ▼
 *                         REVERSED                    REVERSED, settled
 *
 * Over the arrows stands what the ledger says of the move: one posting of each kind. Recording a
 * payment that has succeeded is the same as the first move.
 */
export interface Place {
  readonly status: TransactionStatus
  readonly settled: boolean
}

/** The kinds of postings, in the order in which they are made. */
export type PostingKind =
  | 'payment'
  | 'settlement'
  | 'fee'
  | 'fee_reversal'
  | 'settlement_reversal'
  | 'payment_reversal'

interface LedgerTransition {
  readonly from: Place
  readonly to: Place
  /** A fee of nothing has no posting, and neither has its reversal. */
  readonly postings: readonly PostingKind[]
}

const at = (status: TransactionStatus, settled = false): Place => ({ status, settled })

/**
 * Every legal move; the database refuses all others, and these too without their postings (see
 * `transaction_guard` and `transaction_posted` in the migrations).
 */
export const TRANSITIONS: readonly LedgerTransition[] = [
  { from: at('PENDING'), to: at('SUCCESS'), postings: ['payment'] },
  { from: at('PENDING'), to: at('FAILED'), postings: [] },
  { from: at('SUCCESS'), to: at('SUCCESS', true), postings: ['settlement', 'fee'] },
  { from: at('SUCCESS'), to: at('REVERSED'), postings: ['payment_reversal'] },
  {
    from: at('SUCCESS', true),
    to: at('REVERSED', true),
    postings: ['fee_reversal', 'settlement_reversal', 'payment_reversal'],
  },
]

/** Whether a transaction may go from one place to another. */
export function isLegalTransition(from: Place, to: Place): boolean {
  return TRANSITIONS.some((move) => isSame(move.from, from) && isSame(move.to, to))
}

function isSame(a: Place, b: Place): boolean {
  return a.status === b.status && a.settled === b.settled
}
