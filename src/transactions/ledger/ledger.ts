import type { TransactionStatus } from '../transaction.ts'

/**
 * The ledger state of a transaction: its status, and whether it is settled, which is whether it has a posting of
 * that kind. A settlement and a reversal exclude each other by a lock of the balance (`lock_settled`).
 *
 *     PENDING ──payment──▶ SUCCESS ──settlement, fee──▶ SUCCESS, settled
 *        │                    │                                │
 *        ▼             payment_reversal        fee_, settlement_, payment_reversal
 *      FAILED                 ▼                                ▼
 *                         REVERSED                    REVERSED, settled
 *
 * The posting of a payment that is held (see ../variance/hold.ts) credits the account `held`, in place of `pending`.
 * Its acceptance moves the money to `pending`; only then can it be settled. A reversal mirrors an acceptance, too.
 *
 * Each arrow is labelled with the postings that the transition makes, one of each kind. Recording a
 * payment as SUCCESS makes the same postings as the transition from PENDING to SUCCESS.
 */
export interface LedgerState {
  readonly status: TransactionStatus
  readonly settled: boolean
}

/** The kinds of postings, in the order in which a transaction makes them. */
export type PostingKind =
  | 'payment'
  | 'acceptance'
  | 'settlement'
  | 'fee'
  | 'fee_reversal'
  | 'settlement_reversal'
  | 'acceptance_reversal'
  | 'payment_reversal'

interface LedgerTransition {
  readonly from: LedgerState
  readonly to: LedgerState
  /** A zero fee makes no posting, and neither does its reversal. */
  readonly postings: readonly PostingKind[]
}

const at = (status: TransactionStatus, settled = false): LedgerState => ({ status, settled })

/**
 * Every legal transition. The database rejects all others, and rejects these if their postings are
 * missing (see `transaction_guard`, `transaction_posted` and `settlement_posted` in the migrations).
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

/** Whether a transaction may go from one state to another. */
export function isLegalTransition(from: LedgerState, to: LedgerState): boolean {
  return TRANSITIONS.some((each) => isSame(each.from, from) && isSame(each.to, to))
}

function isSame(a: LedgerState, b: LedgerState): boolean {
  return a.status === b.status && a.settled === b.settled
}
