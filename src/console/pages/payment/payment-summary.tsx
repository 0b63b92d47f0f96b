import type { Timeline, TimelineDelivery } from '../../../../gen/inflow/overview/v1/timeline_pb.ts'
import {
  type Transaction,
  TransactionStatus,
} from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { DeliveryStatus } from '../../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useBusinessName } from '../../app/business-switcher.tsx'
import { bankName } from '../../format/banks.ts'
import { naira } from '../../format/money.ts'
import { nameOf, VARIANCES } from '../../format/payments.ts'
import { Action } from '../../ui/controls/action.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Facts, Section } from '../../ui/page.tsx'
import { PaymentStatus } from '../../ui/payment-status.tsx'
import { Status, type Tone } from '../../ui/status.tsx'
import { Id, Money, Time } from '../../ui/values.tsx'
import { PaymentActions } from './payment-actions.tsx'
import { Postings } from './postings.tsx'
import { hostOf } from './timeline-rows.ts'

/** The right column: what the payment is, where its money is, and what can be done. */
export function PaymentSummary({
  timeline,
  payment,
}: {
  readonly timeline: Timeline
  readonly payment: Transaction
}) {
  return (
    <aside className="payment-summary" aria-label="The payment">
      <div className="payment-amount">
        <Money
          minor={payment.amountMinor}
          isReversed={payment.status === TransactionStatus.REVERSED}
        />
        <PaymentStatus payment={payment} />
        {payment.imported && <Status tone="neutral">Imported: in no balance</Status>}
      </div>
      <PaymentActions payment={payment} />
      <PaymentFacts payment={payment} />
      {timeline.deliveries.length > 0 && <Deliveries deliveries={timeline.deliveries} />}
      <Section title="Ledger">
        <Postings postings={timeline.postings} />
      </Section>
    </aside>
  )
}

function PaymentFacts({ payment }: { readonly payment: Transaction }) {
  const { payer, expectedAmountMinor, variance } = payment
  return (
    <Facts
      facts={[
        [
          'Account',
          <PageLink
            key="account"
            to={`/accounts/${payment.businessId}/${payment.accountReference}`}
          >
            {payment.accountNumber}
          </PageLink>,
        ],
        ['Account name', payment.accountName],
        ['Bank', bankName(payment.bank)],
        ['Customer', payment.customerName],
        ['E-mail', payment.customerEmail],
        ['Payer', payer?.name],
        [
          'Paid from',
          [payer?.accountNumber, payer?.bankName || payer?.bankCode].filter(Boolean).join(' · '),
        ],
        ['Narration', payment.narration],
        ['Session', <Id key="session" text={payment.sessionId} charsMax={32} />],
        ['Paid', <Time key="paid" at={payment.paidAt} />],
        ['Expected', expectedAmountMinor > 0n ? naira(expectedAmountMinor) : ''],
        ['Variance', nameOf(VARIANCES, variance)],
        ['Reference', payment.merchantReference],
        ['Business', <BusinessLink key="business" businessId={payment.businessId} />],
        ['Mode', payment.live ? 'Live' : 'Test'],
        ...Object.entries(payment.metadata),
      ]}
    />
  )
}

function BusinessLink({ businessId }: { readonly businessId: string }) {
  const name = useBusinessName(businessId)
  return <PageLink to={`/businesses/${businessId}`}>{name}</PageLink>
}

const STATES: Readonly<Record<number, readonly [Tone, string]>> = {
  [DeliveryStatus.PENDING]: ['waiting', 'Pending'],
  [DeliveryStatus.DELIVERED]: ['good', 'Delivered'],
  [DeliveryStatus.FAILED]: ['bad', 'Failed'],
}

function Deliveries({ deliveries }: { readonly deliveries: readonly TimelineDelivery[] }) {
  return (
    <Section title="Webhooks">
      <ul className="deliveries">
        {deliveries.map(({ delivery, endpointUrl }) => {
          if (delivery === undefined) return null
          const [tone, name] = STATES[delivery.status] ?? ['neutral', 'Unknown']
          const isOver = delivery.status !== DeliveryStatus.PENDING
          return (
            <li key={delivery.id}>
              <PageLink to={`/webhooks/deliveries/${delivery.id}`}>{hostOf(endpointUrl)}</PageLink>
              <Status tone={tone}>{name}</Status>
              <Action
                method={WebhookService.method.redeliver}
                isOffered={isOver}
                label="Redeliver"
                says={`Sends ${delivery.eventKind} to ${endpointUrl} again, with the same webhook-id, as attempt ${delivery.attemptCount + 1}.`}
                request={() => ({ deliveryId: delivery.id })}
                target={delivery.id}
              />
              <span className="faint">{delivery.eventKind}</span>
            </li>
          )
        })}
      </ul>
    </Section>
  )
}
