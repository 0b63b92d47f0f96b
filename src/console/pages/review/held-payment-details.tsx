import { useQuery } from '@connectrpc/connect-query'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { TransactionService } from '../../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { HOLD_STATES, nameOf, VARIANCES } from '../../format/payments.ts'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts } from '../../ui/page.tsx'
import { Id, Money, Time } from '../../ui/values.tsx'

/** A payment into a one-time account that does not keep to its terms. */
export function HeldPaymentDetails({ item }: { readonly item: ReviewItem }) {
  const { sessionId, businessId } = item
  const read = useQuery(TransactionService.method.getTransaction, { sessionId, businessId })
  const payment = read.data?.transaction
  if (read.error) return <Failure error={read.error} />
  if (payment === undefined) return <Waiting rows={3} />
  const { payer } = payment
  return (
    <>
      <Facts
        facts={[
          ['Amount', <Money key="amount" minor={payment.amountMinor} />],
          [
            'Expected',
            payment.expectedAmountMinor > 0n && (
              <Money key="expected" minor={payment.expectedAmountMinor} />
            ),
          ],
          ['Held because', nameOf(VARIANCES, payment.variance)],
          ['State', nameOf(HOLD_STATES, payment.holdState)],
          ['Return reason', payment.returnReason],
          ['Account', <Id key="account" text={payment.accountNumber} />],
          ['Customer', payment.customerName],
          [
            'Payer',
            [payer?.name, payer?.accountNumber, payer?.bankName].filter(Boolean).join(' · '),
          ],
          ['Paid', <Time key="paid" at={payment.paidAt} />],
        ]}
      />
      <p>
        <PageLink to={`/payments/${payment.id}`}>The payment</PageLink>
      </p>
    </>
  )
}
