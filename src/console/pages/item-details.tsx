import { useInfiniteQuery, useMutation, useQuery } from '@connectrpc/connect-query'
import { type ReactNode, useEffect } from 'react'
import { OpeningState } from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import {
  type Notification,
  NotificationResult,
} from '../../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../../gen/inflow/notification/v1/notification_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../../gen/inflow/overview/v1/review_pb.ts'
import type { PaymentConflict } from '../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import type { Transaction } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { bankName } from '../format/banks.ts'
import { enumWords } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { HOLD_STATES, nameOf, STATUSES, VARIANCES } from '../format/payments.ts'
import { durationText } from '../format/time.ts'
import { useMay } from '../session/session.tsx'
import { Button, Code } from '../ui/button.tsx'
import { Facts, Failure, Waiting } from '../ui/page.tsx'
import { Id, Money, PageLink, Time } from '../ui/values.tsx'

/** What is known of an item, and what the bank says. */
export function ItemDetails({ item }: { readonly item: ReviewItem }) {
  switch (item.kind) {
    case ReviewKind.UNMATCHED_PAYMENT:
      return <UnmatchedDetails item={item} />
    case ReviewKind.HELD_NOTIFICATION:
      return <NotificationDetails item={item} />
    case ReviewKind.PAYMENT_CONFLICT:
      return <ConflictDetails item={item} />
    case ReviewKind.ACCOUNT_OPENING:
      return <OpeningDetails item={item} />
    case ReviewKind.HELD_PAYMENT:
      return <HeldPaymentDetails item={item} />
    case ReviewKind.ENDPOINT:
      return <EndpointDetails item={item} />
    case ReviewKind.SETTLEMENT:
      return <SettlementDue item={item} />
    default:
      return null
  }
}

const PAGE_SIZE = 200

/** What the bank reported of a payment for a number that is not open. */
function UnmatchedDetails({ item: { id, bank } }: { readonly item: ReviewItem }) {
  const pages = useInfiniteQuery(
    ReconciliationService.method.listUnmatchedPayments,
    { bank, pageSize: PAGE_SIZE, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
    },
  )
  const { found, isPending, error } = useListed(pages, ({ payments }) =>
    payments.find((payment) => payment.id === id),
  )
  if (error) return <Failure error={error} />
  if (isPending) return <Waiting rows={3} />
  if (found === undefined) return <p className="soft">It does not wait any more.</p>
  const { payer } = found
  return (
    <Facts
      facts={[
        ['Amount', <Money key="amount" minor={found.amountMinor} />],
        ['Paid to', <Id key="account" text={found.accountNumber} />],
        ['Status', nameOf(STATUSES, found.status)],
        ['Paid', <Time key="paid" at={found.paidAt} />],
        ['Payer', [payer?.name, payer?.accountNumber, payer?.bankName].filter(Boolean).join(' · ')],
        ['Narration', found.narration],
        ['Session', <Id key="session" text={found.sessionId} charsMax={36} />],
      ]}
    />
  )
}

/** A held notification: what could be read of it, why it is held, and, on request, its body. */
function NotificationDetails({ item: { id, bank } }: { readonly item: ReviewItem }) {
  const pages = useInfiniteQuery(
    NotificationService.method.listHeldNotifications,
    { bank, pageSize: PAGE_SIZE, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
    },
  )
  const { found, isPending, error } = useListed(pages, ({ notifications }) =>
    notifications.find((notification) => notification.id === id),
  )
  if (error) return <Failure error={error} />
  if (isPending) return <Waiting rows={3} />
  if (found === undefined) return <p className="soft">It is not held any more.</p>
  return (
    <>
      <KnownNotification notification={found} />
      <NotificationBody notificationId={id} />
    </>
  )
}

function KnownNotification({ notification }: { readonly notification: Notification }) {
  const { accountNumber, sessionId, amountMinor, cause, result, tries, receivedAt } = notification
  return (
    <Facts
      facts={[
        ['Cause', cause],
        ['Result', enumWords(NotificationResult, result)],
        ['Received', <Time key="received" at={receivedAt} />],
        ['Processed', tries === 1 ? 'once' : `${tries} times`],
        ['Amount', amountMinor > 0n ? <Money key="amount" minor={amountMinor} /> : 'not readable'],
        ['Account', accountNumber && <Id key="account" text={accountNumber} />],
        ['Session', sessionId && <Id key="session" text={sessionId} charsMax={36} />],
      ]}
    />
  )
}

/** The body, which has names and account numbers: the audit log states who saw it, so it is shown on request. */
function NotificationBody({ notificationId }: { readonly notificationId: string }) {
  const show = useMutation(NotificationService.method.showNotification)
  const mayShow = useMay()(NotificationService.method.showNotification)
  if (!mayShow) return null
  if (show.data) return <Code title="What the bank sent" text={show.data.body} />
  return (
    <div className="reveal">
      <Button busy={show.isPending} onClick={() => show.mutate({ notificationId })}>
        Show what the bank sent
      </Button>
      <span className="faint">The audit log states that you saw it.</span>
      {show.error && <Failure error={show.error} />}
    </div>
  )
}

/** The recorded payment beside the report that contradicts it. */
function ConflictDetails({ item }: { readonly item: ReviewItem }) {
  const pages = useInfiniteQuery(
    ReconciliationService.method.listPaymentConflicts,
    { pageSize: PAGE_SIZE, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
    },
  )
  const { found, isPending, error } = useListed(pages, ({ conflicts }) =>
    conflicts.find((conflict) => conflict.id === item.id),
  )
  const mayGet = useMay()(TransactionService.method.getTransaction)
  const recorded = useQuery(
    TransactionService.method.getTransaction,
    { sessionId: item.sessionId, businessId: item.businessId },
    { enabled: mayGet && item.sessionId !== '' && item.businessId !== '' },
  )
  if (error) return <Failure error={error} />
  if (isPending || recorded.isLoading) return <Waiting rows={3} />
  if (found === undefined) return <p className="soft">It does not wait any more.</p>
  return (
    <>
      <Compared
        ours="Recorded"
        theirs="Reported"
        facts={factsOf(found, recorded.data?.transaction)}
      />
      <p>
        <PageLink to={`/payments/${item.transactionId}`}>The recorded payment</PageLink>{' '}
        <span className="faint">
          The report arrived <Time at={found.createdAt} />. It changed nothing.
        </span>
      </p>
    </>
  )
}

function factsOf(conflict: PaymentConflict, recorded: Transaction | undefined): ComparedFact[] {
  const { amountMinor, recordedAmountMinor, accountNumber, recordedAccountNumber, status } =
    conflict
  const facts: ComparedFact[] = [
    {
      name: 'Amount',
      ours: <Money minor={recordedAmountMinor} />,
      theirs: <Money minor={amountMinor} />,
      differs: amountMinor !== recordedAmountMinor,
    },
    {
      name: 'Account',
      ours: recordedAccountNumber,
      theirs: accountNumber,
      differs: accountNumber !== recordedAccountNumber,
    },
  ]
  if (recorded === undefined) return facts
  return [
    ...facts,
    {
      name: 'Status',
      ours: nameOf(STATUSES, recorded.status),
      theirs: nameOf(STATUSES, status),
      differs: recorded.status !== status,
    },
  ]
}

/** One fact as both sides have it. */
interface ComparedFact {
  readonly name: string
  readonly ours: ReactNode
  readonly theirs: ReactNode
  readonly differs: boolean
}

/** Two sides of the same payment; what differs is marked, not by colour alone. */
function Compared({
  ours,
  theirs,
  facts,
}: {
  /** The titles of the sides. */
  readonly ours: string
  readonly theirs: string
  readonly facts: readonly ComparedFact[]
}) {
  return (
    <div className="table-frame scrolls">
      <table className="table compared">
        <thead>
          <tr>
            <th scope="col">
              <span className="hidden">Fact</span>
            </th>
            <th scope="col">{ours}</th>
            <th scope="col">{theirs}</th>
          </tr>
        </thead>
        <tbody>
          {facts.map((fact) => (
            <tr key={fact.name} className={fact.differs ? 'differs' : undefined}>
              <th scope="row">{fact.name}</th>
              <td>
                {fact.differs && '≠ '}
                {fact.ours}
              </td>
              <td>
                {fact.differs && '≠ '}
                {fact.theirs}
                {fact.differs && <span className="hidden"> differs</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A list that is read page by page, as `useInfiniteQuery` returns it. */
interface ListPages<Page> {
  readonly data: { readonly pages: readonly Page[] } | undefined
  readonly error: unknown
  readonly isPending: boolean
  readonly hasNextPage: boolean
  readonly isFetchingNextPage: boolean
  fetchNextPage(): unknown
}

/** The most pages that are read to find one item. */
const PAGES_MAX = 10

/** Finds one item of a list that has no look-up by id: reads on until it is found. */
function useListed<Page, Item>(
  pages: ListPages<Page>,
  find: (page: Page) => Item | undefined,
): { readonly found: Item | undefined; readonly isPending: boolean; readonly error: unknown } {
  const read = pages.data?.pages ?? []
  const found = read.map(find).find((item) => item !== undefined)
  const isMissing = found === undefined && pages.hasNextPage && read.length < PAGES_MAX
  useEffect(() => {
    if (isMissing && !pages.isFetchingNextPage && pages.error === null) pages.fetchNextPage()
  }, [isMissing, pages])
  return {
    found,
    isPending: pages.isPending || (isMissing && pages.error === null),
    error: pages.error,
  }
}

/** An account that the bank may or may not have opened. */
function OpeningDetails({ item: { businessId, id } }: { readonly item: ReviewItem }) {
  const read = useQuery(AccountService.method.getAccount, { businessId, reference: id })
  const { account } = read.data ?? {}
  if (read.error) return <Failure error={read.error} />
  if (account === undefined) return <Waiting rows={3} />
  const { customer, opening } = account
  return (
    <>
      <Facts
        facts={[
          ['Cause', opening?.cause],
          ['State', enumWords(OpeningState, opening?.state ?? 0)],
          ['Attempts', opening && `${opening.attempts}`],
          ['Customer', `${customer?.firstName} ${customer?.lastName}`],
          ['E-mail', customer?.email],
          ['Bank', bankName(account.bank)],
          ['Requested', <Time key="created" at={account.createdAt} />],
        ]}
      />
      <p>
        <PageLink to={`/accounts/${businessId}/${id}`}>The account</PageLink>{' '}
        <span className="faint">Look for the customer at the bank before you decide.</span>
      </p>
    </>
  )
}

/** A payment into a one-time account that does not keep to its terms. */
function HeldPaymentDetails({ item }: { readonly item: ReviewItem }) {
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

/** How the deliveries to a failing endpoint went in the last day. */
function EndpointDetails({ item: { id } }: { readonly item: ReviewItem }) {
  const read = useQuery(WebhookService.method.getEndpointStatistics, { endpointIds: [id] })
  if (read.error) return <Failure error={read.error} />
  if (read.isPending) return <Waiting rows={3} />
  const [statistics] = read.data.statistics
  if (statistics === undefined) return <p className="soft">It is deleted.</p>
  return (
    <Facts
      facts={[
        ['Delivered', `${count(statistics.deliveredCount)} of ${count(statistics.deliveryCount)}`],
        ['Failed', count(statistics.failedCount)],
        ['Pending', count(statistics.pendingCount)],
        [
          'Oldest pending',
          statistics.oldestPendingAt && <Time key="oldest" at={statistics.oldestPendingAt} />,
        ],
        [
          'Response time',
          statistics.attemptCount > 0n &&
            `${durationText(statistics.latencyP50Ms)}, 95 % within ${durationText(statistics.latencyP95Ms)}`,
        ],
        ['Counted since', <Time key="from" at={statistics.from} />],
      ]}
    />
  )
}

/** What an overdue settlement would settle. */
function SettlementDue({ item: { businessId, live } }: { readonly item: ReviewItem }) {
  const read = useQuery(SettlementService.method.previewSettlement, { businessId, test: !live })
  if (read.error) return <Failure error={read.error} />
  if (read.isPending) return <Waiting rows={3} />
  const { transactionCount, grossMinor, feesMinor, splitsMinor, netMinor, cutOffAt } = read.data
  return (
    <Facts
      facts={[
        ['Payments', count(transactionCount)],
        ['Gross', <Money key="gross" minor={grossMinor} />],
        ['Fees', <Money key="fees" minor={feesMinor} />],
        ['Splits', splitsMinor > 0n && <Money key="splits" minor={splitsMinor} />],
        ['Net', <Money key="net" minor={netMinor} />],
        ['Recorded before', <Time key="cut-off" at={cutOffAt} />],
      ]}
    />
  )
}
