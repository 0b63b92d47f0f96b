import { HeldPaymentService } from '../../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionStatus,
} from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { naira } from '../../format/money.ts'
import { Action } from '../../ui/controls/action.tsx'

/** What can be done with a payment in its present state. */
export function PaymentActions({ payment }: { readonly payment: Transaction }) {
  const { id, status, holdState } = payment
  const isIn = (state: HoldState) => status === TransactionStatus.SUCCESS && holdState === state
  return (
    <div className="payment-actions">
      <Action
        method={HeldPaymentService.method.acceptPayment}
        label="Accept"
        kind="primary"
        isOffered={isIn(HoldState.HELD)}
        says={`${naira(payment.amountMinor)} becomes pending for the business, and is settled as if it had been recorded now.`}
        request={() => ({ transactionId: id })}
        target={id}
      />
      <Action
        method={HeldPaymentService.method.returnPayment}
        label="Return"
        isOffered={isIn(HoldState.HELD)}
        says="Requests the return of the money. An operator sends it back at the bank, and then completes the return here."
        reason="Why"
        request={(reason) => ({ transactionId: id, reason })}
        target={id}
      />
      <Action
        method={HeldPaymentService.method.completeReturn}
        label="Complete the return"
        kind="primary"
        isOffered={isIn(HoldState.RETURN_REQUESTED)}
        says="Only once the bank has returned the money: the payment is reversed, and the business is notified."
        reason="How the money was returned"
        request={(note) => ({ transactionId: id, note })}
        target={id}
      />
      <Reverse payment={payment} />
    </div>
  )
}

function Reverse({ payment }: { readonly payment: Transaction }) {
  const { id, amountMinor, settled, status } = payment
  const taken = settled
    ? 'It was settled: the amount is taken from the available balance, which may become negative.'
    : 'It is not settled yet: the amount is taken from the pending balance.'
  return (
    <Action
      method={TransactionService.method.reverseTransaction}
      label="Reverse"
      kind="danger"
      isOffered={status === TransactionStatus.SUCCESS && !payment.imported}
      says={`Reverses all postings of ${naira(amountMinor)}, once and for all, and notifies the business. ${taken} No money is sent.`}
      reason="Reason, which the business sees"
      request={(reason) => ({ transactionId: id, reason })}
      target={id}
    />
  )
}
