import { useQuery } from '@connectrpc/connect-query'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count } from '../../format/money.ts'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts } from '../../ui/page.tsx'
import { Money, Time } from '../../ui/values.tsx'

/** What an overdue settlement would settle. */
export function SettlementDue({ item: { businessId, live } }: { readonly item: ReviewItem }) {
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
