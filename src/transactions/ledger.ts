import type { TransactionStatus } from './transaction.ts'

/**
 * The ledger state of a transaction: its status, and whether it is settled, that is, has a settlement posting.
 * A settlement and a reversal exclude each other, because both lock the balance (`lock_settled`).
 *
 *     PENDING ──payment──▶ SUCCESS ──settlement, fee, split, share_1 … 5──▶ SUCCESS, settled
 *        │                    │                                │
 *        ▼             payment_reversal        the reversal of each of these, payment_reversal
 *      FAILED                 ▼                                ▼
 *                         REVERSED                    REVERSED, settled
 *
 * The posting of a payment that is held (see ../variance/variance.ts) credits the account `held`, in place of `pending`.
 * Its acceptance moves the money to `pending`; only then can it be settled. A reversal mirrors an acceptance, too.
 *
 * If the account is split, `split` moves the shares of other businesses from the available balance of the owner to the
 * account `splits`, and each `share`, a posting of its recipient, from there to the recipient's available balance. So
 * `splits` adds up to zero for each transaction.
 *
 * Money that was refunded before the settlement of its payment left the pending balance with the payout of the refund, so
 * `settlement`, `fee` and the shares apply to the rest. If nothing is left, the amount of the `settlement` posting is zero.
 *
 * An imported transaction (`imported_settled`) has no postings, makes no transitions and counts towards no balance.
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
  | 'split'
  | `share_${ShareNumber}`
  | `share_${ShareNumber}_reversal`
  | 'split_reversal'
  | 'fee_reversal'
  | 'settlement_reversal'
  | 'acceptance_reversal'
  | 'payment_reversal'

/** The position of a recipient in a split. */
type ShareNumber = 1 | 2 | 3 | 4 | 5

const NUMBERS: readonly ShareNumber[] = [1, 2, 3, 4, 5]

interface LedgerTransition {
  readonly from: LedgerState
  readonly to: LedgerState
  /** A fee, a split or a share of zero makes no posting, and neither does its reversal. */
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
  {
    from: at('SUCCESS'),
    to: at('SUCCESS', true),
    postings: ['settlement', 'fee', 'split', ...NUMBERS.map((each) => `share_${each}` as const)],
  },
  { from: at('SUCCESS'), to: at('REVERSED'), postings: ['payment_reversal'] },
  {
    from: at('SUCCESS', true),
    to: at('REVERSED', true),
    postings: [
      ...NUMBERS.map((each) => `share_${each}_reversal` as const),
      'split_reversal',
      'fee_reversal',
      'settlement_reversal',
      'payment_reversal',
    ],
  },
]

/** Whether a transaction may go from one state to another. */
export function isLegalTransition(from: LedgerState, to: LedgerState): boolean {
  return TRANSITIONS.some((each) => isSame(each.from, from) && isSame(each.to, to))
}

function isSame(a: LedgerState, b: LedgerState): boolean {
  return a.status === b.status && a.settled === b.settled
}
