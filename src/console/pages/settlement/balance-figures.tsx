import { useQuery } from '@connectrpc/connect-query'
import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { naira } from '../../format/money.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'

/** What a business has: received, available, and the fees so far. */
export function BalanceFigures({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const read = useQuery(SettlementService.method.getBalance, { businessId, test: !live })
  if (read.error) return <Failure error={read.error} onRetry={() => void read.refetch()} />
  const { balance } = read.data ?? {}
  if (balance === undefined) return <Waiting rows={2} />
  const figures = [
    ['Pending', balance.pendingMinor, 'received, not settled yet'],
    ['Available', balance.availableMinor, 'settled, less fees and reversals'],
    ['Fees', balance.feesMinor, 'charged so far'],
  ] as const
  return (
    <ul className="figures" aria-label="Balance">
      {figures.map(([title, minor, note]) => (
        <li key={title} className="figure">
          <span className="figure-title">{title}</span>
          <span className="figure-value">{naira(minor)}</span>
          <span className="faint">{note}</span>
        </li>
      ))}
    </ul>
  )
}
