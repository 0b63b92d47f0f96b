import type { Transaction } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { paymentState } from '../format/payments.ts'
import { Status } from './values.tsx'

/** What a payment is, in a word. */
export function PaymentStatus({ payment }: { readonly payment: Transaction }) {
  const { tone, name } = paymentState(payment)
  return <Status tone={tone}>{name}</Status>
}
