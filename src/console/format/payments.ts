import {
  HoldState,
  type Transaction,
  TransactionStatus,
  Variance,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { Tone } from '../ui/values.tsx'

interface Named<Value> {
  readonly value: Value
  /** In URLs. */
  readonly code: string
  readonly name: string
}

export const STATUSES: readonly Named<TransactionStatus>[] = [
  { value: TransactionStatus.SUCCESS, code: 'success', name: 'Success' },
  { value: TransactionStatus.PENDING, code: 'pending', name: 'Pending' },
  { value: TransactionStatus.FAILED, code: 'failed', name: 'Failed' },
  { value: TransactionStatus.REVERSED, code: 'reversed', name: 'Reversed' },
]

export const VARIANCES: readonly Named<Variance>[] = [
  { value: Variance.UNDERPAID, code: 'underpaid', name: 'Underpaid' },
  { value: Variance.OVERPAID, code: 'overpaid', name: 'Overpaid' },
  { value: Variance.EXPIRED, code: 'expired', name: 'After expiry' },
  { value: Variance.REPEATED, code: 'repeated', name: 'Repeated' },
  { value: Variance.PAYER_NOT_ALLOWED, code: 'payer', name: 'Payer not allowed' },
  { value: Variance.NONE, code: 'none', name: 'As expected' },
]

export const HOLD_STATES: readonly Named<HoldState>[] = [
  { value: HoldState.HELD, code: 'held', name: 'Held' },
  { value: HoldState.ACCEPTED, code: 'accepted', name: 'Accepted' },
  { value: HoldState.RETURN_REQUESTED, code: 'return', name: 'Return requested' },
  { value: HoldState.RETURNED, code: 'returned', name: 'Returned' },
]

/** The value that a code of the URL stands for. */
export function byCode<Value>(list: readonly Named<Value>[], code: string): Value | undefined {
  return list.find((each) => each.code === code)?.value
}

/** The name of a value; empty if it is unspecified. */
export function nameOf<Value>(list: readonly Named<Value>[], value: Value): string {
  return list.find((each) => each.value === value)?.name ?? ''
}

/** What a payment is, in a word: a held one is shown as such, because it is in no balance. */
export function paymentState({ status, holdState, settled }: Transaction): {
  readonly tone: Tone
  readonly name: string
} {
  if (status === TransactionStatus.REVERSED) return { tone: 'neutral', name: 'Reversed' }
  if (status === TransactionStatus.FAILED) return { tone: 'bad', name: 'Failed' }
  if (status === TransactionStatus.PENDING) return { tone: 'waiting', name: 'Pending' }
  if (holdState === HoldState.HELD) return { tone: 'waiting', name: 'Held' }
  if (holdState === HoldState.RETURN_REQUESTED) {
    return { tone: 'waiting', name: 'Return requested' }
  }
  return { tone: 'good', name: settled ? 'Settled' : 'Success' }
}
