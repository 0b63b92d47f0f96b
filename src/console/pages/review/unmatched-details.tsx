import { useInfiniteQuery } from '@connectrpc/connect-query'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { ReconciliationService } from '../../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { nameOf, STATUSES } from '../../format/payments.ts'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts } from '../../ui/page.tsx'
import { Id, Money, Time } from '../../ui/values.tsx'
import { useListed } from './use-listed.ts'

const PAGE_SIZE = 200

/** What the bank reported of a payment for a number that is not open. */
export function UnmatchedDetails({ item: { id, bank } }: { readonly item: ReviewItem }) {
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
