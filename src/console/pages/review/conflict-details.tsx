import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import type { PaymentConflict } from '../../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import { ReconciliationService } from '../../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import type { Transaction } from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { nameOf, STATUSES } from '../../format/payments.ts'
import { useMay } from '../../session/session.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Money, Time } from '../../ui/values.tsx'
import { Compared, type ComparedFact } from './compared.tsx'
import { useListed } from './use-listed.ts'

const PAGE_SIZE = 200

/** The recorded payment beside the report that contradicts it. */
export function ConflictDetails({ item }: { readonly item: ReviewItem }) {
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
