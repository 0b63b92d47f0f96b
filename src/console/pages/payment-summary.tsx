import type {
  Posting,
  Timeline,
  TimelineDelivery,
} from '../../../gen/inflow/overview/v1/timeline_pb.ts'
import { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionStatus,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { DeliveryStatus } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useBusinessName } from '../app/top-bar.tsx'
import { bankName } from '../format/banks.ts'
import { words } from '../format/ids.ts'
import { naira } from '../format/money.ts'
import { nameOf, VARIANCES } from '../format/payments.ts'
import { Action } from '../ui/action.tsx'
import { Facts, Section } from '../ui/page.tsx'
import { PaymentStatus } from '../ui/payment-status.tsx'
import { Id, Money, PageLink, Status, Time, type Tone } from '../ui/values.tsx'
import { hostOf } from './timeline.tsx'

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

const DELIVERY_STATES: Readonly<Record<number, readonly [Tone, string]>> = {
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
          const [tone, name] = DELIVERY_STATES[delivery.status] ?? ['neutral', 'Unknown']
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

/** What can be done with a payment in its present state. */
function PaymentActions({ payment }: { readonly payment: Transaction }) {
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

/** The movements of the money as debits and credits, whose sums are equal. */
function Postings({ postings }: { readonly postings: readonly Posting[] }) {
  if (postings.length === 0) {
    return <p className="faint">No money has moved.</p>
  }
  const sum = postings.reduce((total, { amountMinor }) => total + amountMinor, 0n)
  return (
    <table className="postings" aria-label="Ledger postings">
      <thead>
        <tr>
          <th scope="col">Ledger account</th>
          <th scope="col" className="number">
            Debit
          </th>
          <th scope="col" className="number">
            Credit
          </th>
        </tr>
      </thead>
      {postings.map((posting, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: postings have no id, and are only added
        <tbody key={index}>
          <PostingRows posting={posting} first={postings[0]} />
        </tbody>
      ))}
      <tfoot>
        <tr>
          <th scope="row">Sum</th>
          <td className="number">{naira(sum)}</td>
          <td className="number">{naira(sum)}</td>
        </tr>
      </tfoot>
    </table>
  )
}

function PostingRows({
  posting: { kind, businessId, debitAccount, creditAccount, amountMinor },
  first,
}: {
  readonly posting: Posting
  readonly first: Posting | undefined
}) {
  const isOther = businessId !== first?.businessId
  return (
    <>
      <tr className="posting-kind">
        <th scope="rowgroup" colSpan={3}>
          {words(kind)}
          {isOther && <code> {businessId}</code>}
        </th>
      </tr>
      <tr>
        <td>{debitAccount}</td>
        <td className="number">{naira(amountMinor)}</td>
        <td />
      </tr>
      <tr>
        <td>{creditAccount}</td>
        <td />
        <td className="number">{naira(amountMinor)}</td>
      </tr>
    </>
  )
}
