import type {
  DescMessage,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf'
import { useQuery } from '@connectrpc/connect-query'
import { type ComponentType, type ReactNode, useEffect } from 'react'
import {
  type Account,
  AccountSchema,
  AccountStatusSchema,
  OpeningStateSchema,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import {
  NotificationResultSchema,
  NotificationSchema,
} from '../../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../../gen/inflow/notification/v1/notification_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../../gen/inflow/overview/v1/review_pb.ts'
import type { PaymentConflict } from '../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { UnmatchedPaymentSchema } from '../../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import {
  PreviewSettlementResponseSchema,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import {
  type Payer,
  TransactionSchema,
  TransactionStatusSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { EndpointStatisticsSchema } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { bankName, enumLabel } from '../format/enums.ts'
import { count, naira } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useMay } from '../session/session.tsx'
import { MessageFacts } from '../ui/columns.tsx'
import { type Pages, usePagedList } from '../ui/list.tsx'
import { Failure, Waiting } from '../ui/page.tsx'
import { Id, Money, PageLink, Time } from '../ui/values.tsx'
import { pathOfAccount } from './account-forms.tsx'
import { NotificationBody, RecordedAndReported } from './step-details.tsx'

interface Props {
  readonly item: ReviewItem
}

export function ItemDetails({ item }: Props) {
  const Details = DETAILS[item.kind]
  return Details && <Details item={item} />
}

const DETAILS: Readonly<Partial<Record<ReviewKind, ComponentType<Props>>>> = {
  [ReviewKind.UNMATCHED_PAYMENT]: UnmatchedDetails,
  [ReviewKind.HELD_NOTIFICATION]: NotificationDetails,
  [ReviewKind.PAYMENT_CONFLICT]: ConflictDetails,
  [ReviewKind.ACCOUNT_OPENING]: OpeningDetails,
  [ReviewKind.HELD_PAYMENT]: HeldPaymentDetails,
  [ReviewKind.ENDPOINT]: EndpointDetails,
  [ReviewKind.SETTLEMENT]: SettlementDue,
}

const PAGE_SIZE = 200

/** The most pages that are read to find an item. */
const PAGES_MAX = 10

/** An item of a list without a look-up by id. Pages of the list are read until the item is found. */
function Listed<Row extends { readonly id: string }>({
  of: { rows, pages },
  id,
  gone,
  children,
}: {
  readonly of: { readonly rows: readonly Row[]; readonly pages: Pages }
  readonly id: string
  /** The text to show if the item is not in the list. */
  readonly gone: string
  readonly children: (found: Row) => ReactNode
}) {
  const found = rows.find((row) => row.id === id)
  const isMissing = !found && pages.hasNextPage && rows.length < PAGES_MAX * PAGE_SIZE
  useEffect(() => {
    if (isMissing && !pages.isFetchingNextPage && pages.error === null) pages.fetchNextPage()
  }, [isMissing, pages])
  if (pages.error) return <Failure error={pages.error} />
  if (pages.isPending || isMissing) return <Waiting rows={3} />
  return found ? children(found) : <p className="soft">{gone}</p>
}

function Read<I extends DescMessage, O extends DescMessage>({
  method,
  request,
  children,
}: {
  readonly method: DescMethodUnary<I, O>
  readonly request: MessageInitShape<I>
  readonly children: (response: MessageShape<O>) => ReactNode
}) {
  const read = useQuery(method, request)
  if (read.error) return <Failure error={read.error} />
  return read.data === undefined ? <Waiting rows={3} /> : children(read.data as MessageShape<O>)
}

const payerText = ({ payer }: { readonly payer?: Payer | undefined }) =>
  [payer?.name, payer?.accountNumber, payer?.bankName].filter(Boolean).join(' · ')

/** The bank's report of a payment for an account number that is not open. */
function UnmatchedDetails({ item: { id, bank, account, businessName } }: Props) {
  const { listUnmatchedPayments } = ReconciliationService.method
  const list = usePagedList(listUnmatchedPayments, 'payments', { bank, pageSize: PAGE_SIZE })
  return (
    <Listed of={list} id={id} gone="It no longer waits.">
      {(payment) => (
        <MessageFacts
          schema={UnmatchedPaymentSchema}
          of={payment}
          facts={[
            'amountMinor',
            ['Paid to', ({ accountNumber }) => <Id text={accountNumber} />],
            [
              'Its account',
              () =>
                account ? (
                  <PageLink to={`/accounts/${account.businessId}/${account.reference}`}>
                    {enumLabel(AccountStatusSchema, account.status)}: {account.customerName},{' '}
                    {businessName}
                  </PageLink>
                ) : (
                  'No account has this number'
                ),
            ],
            'status',
            'paidAt',
            ['Payer', payerText],
            'narration',
            'sessionId',
          ]}
        />
      )}
    </Listed>
  )
}

/** A held notification: the fields that could be read, the reason why it is held, and its body on request. */
function NotificationDetails({ item: { id, bank } }: Props) {
  const { listHeldNotifications } = NotificationService.method
  const list = usePagedList(listHeldNotifications, 'notifications', { bank, pageSize: PAGE_SIZE })
  return (
    <Listed of={list} id={id} gone="It is no longer held.">
      {(notification) => (
        <>
          <MessageFacts
            schema={NotificationSchema}
            of={notification}
            facts={[
              'cause',
              ['Result', ({ result }) => enumLabel(NotificationResultSchema, result)],
              'receivedAt',
              ['Processed', ({ tries }) => (tries === 1 ? 'once' : `${tries} times`)],
              [
                'Amount',
                ({ amountMinor }) =>
                  amountMinor > 0n ? <Money minor={amountMinor} /> : 'not readable',
              ],
              ['Account', ({ accountNumber }) => accountNumber && <Id text={accountNumber} />],
              'sessionId',
            ]}
          />
          <NotificationBody notificationId={id} />
        </>
      )}
    </Listed>
  )
}

/** The recorded payment beside the report that contradicts it. */
function ConflictDetails({ item }: Props) {
  const { id, sessionId, businessId, transactionId } = item
  const { listPaymentConflicts } = ReconciliationService.method
  const list = usePagedList(listPaymentConflicts, 'conflicts', { pageSize: PAGE_SIZE })
  const { getTransaction } = TransactionService.method
  const mayGet = useMay()(getTransaction)
  const enabled = mayGet && sessionId !== '' && businessId !== ''
  const recorded = useQuery(getTransaction, { sessionId, businessId }, { enabled })
  if (recorded.isLoading) return <Waiting rows={3} />
  return (
    <Listed of={list} id={id} gone="It no longer waits.">
      {(conflict) => (
        <>
          <RecordedAndReported rows={sidesOf(conflict, recorded.data?.transaction?.status)} />
          <p>
            <PageLink to={`/payments/${transactionId}`}>The recorded payment</PageLink>{' '}
            <span className="faint">
              The report arrived <Time at={conflict.createdAt} />. It changed nothing.
            </span>
          </p>
        </>
      )}
    </Listed>
  )
}

/** @param status of the recorded payment, if the caller may read it */
function sidesOf(conflict: PaymentConflict, status: number | undefined) {
  const statusText = (value: number) => enumLabel(TransactionStatusSchema, value)
  return [
    ['Amount', naira(conflict.recordedAmountMinor), naira(conflict.amountMinor)],
    ['Account', conflict.recordedAccountNumber, conflict.accountNumber],
    ...(status === undefined
      ? []
      : [['Status', statusText(status), statusText(conflict.status)] as const]),
  ] as const
}

function OpeningDetails({ item: { businessId, id } }: Props) {
  const request = { businessId, reference: id }
  return (
    <Read method={AccountService.method.getAccount} request={request}>
      {({ account }) => account && <Opening account={account} />}
    </Read>
  )
}

function Opening({ account }: { account: Account }) {
  const { opening, customer } = account
  return (
    <>
      <MessageFacts
        schema={AccountSchema}
        of={account}
        facts={[
          ['Cause', () => opening?.cause],
          ['State', () => enumLabel(OpeningStateSchema, opening?.state ?? 0)],
          ['Attempts', () => opening?.attempts],
          ['Customer', () => `${customer?.firstName} ${customer?.lastName}`],
          ['E-mail', () => customer?.email],
          ['Bank', ({ bank }) => bankName(bank)],
          ['Requested', 'createdAt'],
        ]}
      />
      <p>
        <PageLink to={pathOfAccount(account)}>The account</PageLink>{' '}
        <span className="faint">Look for the customer at the bank before you decide.</span>
      </p>
    </>
  )
}

/** A payment that violates the terms of its one-time account. */
function HeldPaymentDetails({ item: { sessionId, businessId } }: Props) {
  const request = { sessionId, businessId }
  return (
    <Read method={TransactionService.method.getTransaction} request={request}>
      {({ transaction }) =>
        transaction && (
          <>
            <MessageFacts
              schema={TransactionSchema}
              of={transaction}
              facts={[
                'amountMinor',
                'expectedAmountMinor',
                ['Held because', 'variance'],
                ['State', 'holdState'],
                'returnReason',
                ['Account', ({ accountNumber }) => <Id text={accountNumber} />],
                'customerName',
                ['Payer', payerText],
                'paidAt',
              ]}
            />
            <p>
              <PageLink to={`/payments/${transaction.id}`}>The payment</PageLink>
            </p>
          </>
        )
      }
    </Read>
  )
}

function EndpointDetails({ item: { id } }: Props) {
  const request = { endpointIds: [id] }
  return (
    <Read method={WebhookService.method.getEndpointStatistics} request={request}>
      {({ statistics: [statistics] }) =>
        statistics === undefined ? (
          <p className="soft">It is deleted.</p>
        ) : (
          <MessageFacts
            schema={EndpointStatisticsSchema}
            of={statistics}
            facts={[
              [
                'Delivered',
                ({ deliveredCount, deliveryCount }) =>
                  `${count(deliveredCount)} of ${count(deliveryCount)}`,
              ],
              'failedCount',
              'pendingCount',
              'oldestPendingAt',
              [
                'Response time',
                ({ attemptCount, latencyP50Ms, latencyP95Ms }) =>
                  attemptCount > 0n &&
                  `${durationText(latencyP50Ms)}, 95 % within ${durationText(latencyP95Ms)}`,
              ],
              ['Counted since', 'from'],
            ]}
          />
        )
      }
    </Read>
  )
}

function SettlementDue({ item: { businessId, live } }: Props) {
  const request = { businessId, test: !live }
  return (
    <Read method={SettlementService.method.previewSettlement} request={request}>
      {(preview) => (
        <MessageFacts
          schema={PreviewSettlementResponseSchema}
          of={preview}
          facts={[
            'transactionCount',
            'grossMinor',
            'feesMinor',
            'splitsMinor',
            'netMinor',
            'cutOffAt',
          ]}
        />
      )}
    </Read>
  )
}
