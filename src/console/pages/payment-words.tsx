import {
  HoldState,
  type Transaction,
  TransactionStatus,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { Tone } from '../format/enums.ts'
import { Money, Status } from '../ui/values.tsx'

/** The amount of a payment; struck through when it was reversed. */
export function amountShown({ amountMinor, status }: Transaction) {
  return <Money minor={amountMinor} isReversed={status === TransactionStatus.REVERSED} />
}

export function PaymentStatus({ payment }: { readonly payment: Transaction }) {
  const [tone, name] = paymentState(payment)
  return <Status tone={tone}>{name}</Status>
}

/** A held payment is shown as such, because it is in no balance. */
function paymentState({ status, holdState, settled }: Transaction): readonly [Tone, string] {
  if (status === TransactionStatus.REVERSED) return ['neutral', 'Reversed']
  if (status === TransactionStatus.FAILED) return ['bad', 'Failed']
  if (status === TransactionStatus.PENDING) return ['waiting', 'Pending']
  if (holdState === HoldState.HELD) return ['waiting', 'Held']
  if (holdState === HoldState.RETURN_REQUESTED) return ['waiting', 'Return requested']
  return ['good', settled ? 'Settled' : 'Success']
}
