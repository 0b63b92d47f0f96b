import { useQuery } from '@connectrpc/connect-query'
import { type ReactNode, useEffect, useRef } from 'react'
import { useParams } from 'wouter'
import type { Event } from '../../../gen/inflow/event/v1/event_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import type {
  Posting,
  Timeline,
  TimelineDelivery,
} from '../../../gen/inflow/overview/v1/timeline_pb.ts'
import type { Payout } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionSchema,
  TransactionStatus,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { DeliveryStatus, DeliveryStatusSchema } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { bankName, enumValue } from '../format/enums.ts'
import { endpointName, words } from '../format/ids.ts'
import { naira } from '../format/money.ts'
import { msOf } from '../format/time.ts'
import { useEvents } from '../session/live.tsx'
import { useMay } from '../session/session.tsx'
import { useShowObject } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { MessageFacts } from '../ui/columns.tsx'
import { Loaded, Page, Section } from '../ui/page.tsx'
import {
  BusinessLink,
  CustomerLink,
  EnumStatus,
  Id,
  PageLink,
  Status,
  useNow,
} from '../ui/values.tsx'
import { Redeliver } from './deliveries.tsx'
import { amountShown, PaymentStatus } from './payment-words.tsx'
import { Refund, Refunds, useRefunds } from './refunds.tsx'
import { TimelineList } from './timeline.tsx'
import { verdictOf } from './verdict.ts'

/** One payment: its history, and the expected next steps. */
export function PaymentPage() {
  const { id = '' } = useParams()
  const read = useTimeline(id)
  const timeline = read.data?.timeline
  const payment = timeline?.transaction
  useShowObject(payment)
  return (
    <Page title="Payment" actions={<Id text={id} charsMax={40} />}>
      <Loaded read={read} rows={10} />
      {timeline && payment && <Verdict timeline={timeline} payment={payment} />}
      {timeline && payment && (
        <div className="two-thirds">
          <section aria-label="Timeline">
            <TimelineList timeline={timeline} />
            {timeline.truncated && (
              <p className="faint">
                There is more than this shows; the pages of its deliveries have all attempts.
              </p>
            )}
          </section>
          <PaymentSummary timeline={timeline} payment={payment} />
        </div>
      )}
    </Page>
  )
}

/** The state of the payment in a sentence, and an action if one helps. */
function Verdict({ timeline, payment }: { timeline: Timeline; payment: Transaction }) {
  const now = useNow()
  const { tone, text, delivery } = verdictOf(payment, timeline.deliveries, now)
  // Keeps the delivery until the viewer closes the result, even if it is no longer late.
  const latest = useRef(delivery)
  latest.current = delivery ?? latest.current
  return (
    <div className={`verdict ${tone}`}>
      <p>{text}</p>
      {latest.current && (
        <Redeliver
          delivery={latest.current}
          isOffered={delivery !== undefined}
          label="Send now"
          says={`Sends ${latest.current.eventKind} again at once, with the same webhook-id.`}
        />
      )}
    </div>
  )
}

/** How soon after an event its deliveries have usually been attempted. */
const AFTER_EVENT_MS = 1_500

/** How long after its due time an attempt has usually been made. */
const AFTER_DUE_MS = 500
const OVERDUE_MS = 5_000
const ATTEMPT_WAIT_MAX_MS = 60_000

/**
 * Reads the timeline, and reads it again when an event of the payment arrives. Attempts have no events: while an attempt is
 * due, the timeline is read again at the time when the attempt should have been made.
 */
function useTimeline(transactionId: string) {
  const read = useQuery(
    OverviewService.method.getTimeline,
    { transactionId },
    {
      refetchInterval: ({ state }) => nextReadMs(state.data?.timeline, Date.now()),
    },
  )
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const timeline = read.data?.timeline
  useEvents((events, missed) => {
    if (!missed && !events.some((event) => concerns(event, transactionId, timeline))) return
    void read.refetch()
    clearTimeout(timer.current)
    timer.current = setTimeout(() => void read.refetch(), AFTER_EVENT_MS)
  })
  return read
}

function concerns(
  { payload, businessId }: Event,
  id: string,
  shown: Timeline | undefined,
): boolean {
  switch (payload.case) {
    case 'transaction':
      return payload.value.id === id
    case 'paymentConflict':
      return payload.value.transactionId === id
    // The event of a settlement does not list its payments.
    case 'settlement':
      return businessId === shown?.transaction?.businessId && !shown.transaction.settled
    default:
      return false
  }
}

/** @returns in how many milliseconds to read again; false: not until an event arrives */
function nextReadMs(timeline: Timeline | undefined, nowMs: number): number | false {
  const dues = (timeline?.expectedSteps ?? [])
    .filter(({ step }) => step.case === 'nextAttemptDeliveryId')
    .map(({ dueAt }) => msOf(dueAt) ?? 0)
  if (dues.length === 0) return false
  const leftMs = Math.min(...dues) - nowMs
  if (leftMs <= 0) return leftMs > -OVERDUE_MS ? AFTER_DUE_MS : OVERDUE_MS
  return Math.min(leftMs + AFTER_DUE_MS, ATTEMPT_WAIT_MAX_MS)
}

function PaymentSummary({ timeline, payment }: { timeline: Timeline; payment: Transaction }) {
  const refunds = useRefunds(payment)
  return (
    <aside className="payment-summary" aria-label="The payment">
      <div className="payment-amount">
        {amountShown(payment)}
        <PaymentStatus payment={payment} />
        {payment.imported && <Status tone="neutral">Imported: in no balance</Status>}
      </div>
      <PaymentActions payment={payment} refunds={refunds} />
      <PaymentFacts payment={payment} />
      <Refunds refunds={refunds} />
      {timeline.deliveries.length > 0 && <Deliveries deliveries={timeline.deliveries} />}
      <Section title="Ledger">
        <Postings postings={timeline.postings} />
      </Section>
    </aside>
  )
}

function PaymentFacts({ payment }: { readonly payment: Transaction }) {
  return (
    <MessageFacts
      schema={TransactionSchema}
      of={payment}
      facts={[
        [
          'Account',
          ({ businessId, accountReference, accountNumber }) => (
            <PageLink to={`/accounts/${businessId}/${accountReference}`}>{accountNumber}</PageLink>
          ),
        ],
        'accountName',
        ['Bank', ({ bank }) => bankName(bank)],
        'customerName',
        [
          'E-mail',
          ({ businessId, customerEmail }) => (
            <CustomerLink businessId={businessId} email={customerEmail}>
              {customerEmail}
            </CustomerLink>
          ),
        ],
        ['Payer', ({ payer }) => payer?.name],
        [
          'Paid from',
          ({ payer }) =>
            [payer?.accountNumber, payer?.bankName || payer?.bankCode].filter(Boolean).join(' · '),
        ],
        'narration',
        ['Session', ({ sessionId }) => <Id text={sessionId} charsMax={32} />],
        'paidAt',
        'expectedAmountMinor',
        'variance',
        ['Reference', ({ merchantReference }) => merchantReference],
        ['Business', ({ businessId }) => <BusinessLink id={businessId} />],
        ['Mode', ({ live }) => (live ? 'Live' : 'Test')],
        ...Object.entries(payment.metadata).map(([key, value]) => [key, () => value] as const),
      ]}
    />
  )
}

function Deliveries({ deliveries }: { readonly deliveries: readonly TimelineDelivery[] }) {
  return (
    <Section title="Webhooks">
      <ul className="deliveries">
        {deliveries.map(({ delivery, endpointUrl }) => {
          if (delivery === undefined) return null
          const isOver = delivery.status !== DeliveryStatus.PENDING
          return (
            <li key={delivery.id}>
              <PageLink to={`/webhooks/deliveries/${delivery.id}`}>
                {endpointName(endpointUrl, delivery.endpointDescription)}
              </PageLink>
              <EnumStatus of={DeliveryStatusSchema} value={delivery.status} />
              <Redeliver
                delivery={delivery}
                isOffered={isOver}
                says={`Sends ${delivery.eventKind} to ${endpointUrl} again, with the same webhook-id, as attempt ${delivery.attemptCount + 1}.`}
              />
              <span className="faint">{delivery.eventKind}</span>
            </li>
          )
        })}
      </ul>
    </Section>
  )
}

interface ActionsProps {
  readonly payment: Transaction
  readonly refunds: readonly Payout[]
}

function PaymentActions({ payment, refunds }: ActionsProps) {
  const { id, status, holdState } = payment
  const shared = { request: { transactionId: id }, target: id }
  const isIn = (state: HoldState) => status === TransactionStatus.SUCCESS && holdState === state
  return (
    <div className="payment-actions">
      <Action
        method={HeldPaymentService.method.acceptPayment}
        label="Accept"
        kind="primary"
        isOffered={isIn(HoldState.HELD)}
        says={`${naira(payment.amountMinor)} becomes pending for the business, and is settled as if it had been recorded now.`}
        {...shared}
      />
      <Action
        method={HeldPaymentService.method.returnPayment}
        label="Return"
        isOffered={isIn(HoldState.HELD)}
        says="Requests the return of the money. An operator sends it back at the bank, and then completes the return here."
        reason="Why"
        {...shared}
      />
      <Action
        method={HeldPaymentService.method.completeReturn}
        label="Complete the return"
        kind="primary"
        isOffered={isIn(HoldState.RETURN_REQUESTED)}
        says="Only once the bank has returned the money: the payment is reversed, and the business is notified."
        reason="How the money was returned"
        {...shared}
      />
      <Refund payment={payment} refunds={refunds} />
      <More isOffered={status === TransactionStatus.SUCCESS && !payment.imported}>
        <Reverse payment={payment} />
      </More>
    </div>
  )
}

/** Rare actions, behind another click. Their results are shown until the viewer closes them. */
function More({ isOffered, children }: { isOffered: boolean; children: ReactNode }) {
  const mayReverse = useMay()(TransactionService.method.reverseTransaction)
  if (!mayReverse) return null
  return (
    <details className="seldom">
      <summary className="button" hidden={!isOffered}>
        More
      </summary>
      <div>{children}</div>
    </details>
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
      request={{ transactionId: id }}
      target={id}
    />
  )
}

/** The postings as debits and credits, whose sums are equal. */
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

/** The name of a ledger account; accounts of banks show the name of the bank. */
function accountText(account: string): string {
  const bank = account.startsWith(CLEARING) && enumValue(BankSchema, account.slice(CLEARING.length))
  return bank ? `At ${bankName(bank)}` : words(account)
}

const CLEARING = 'clearing:'

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
        <td>{accountText(debitAccount)}</td>
        <td className="number">{naira(amountMinor)}</td>
        <td />
      </tr>
      <tr>
        <td>{accountText(creditAccount)}</td>
        <td />
        <td className="number">{naira(amountMinor)}</td>
      </tr>
    </>
  )
}
