import { createQueryOptions, useTransport } from '@connectrpc/connect-query'
import { useQueries } from '@tanstack/react-query'
import { AdminService } from '../../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { msOf } from '../../format/time.ts'
import { useMay } from '../../session/session.tsx'
import { useViewScope } from '../../session/view-scope.ts'
import { Empty } from '../../ui/lists/empty.tsx'
import { Time } from '../../ui/values.tsx'

/** The changes that end an item, as the audit log names them. */
const DECISIONS = [
  'unmatched_payment.assign',
  'unmatched_payment.return',
  'notification.resolve',
  'payment_conflict.resolve',
  'account.resolve',
  'transaction.accept',
  'transaction.return',
]

/** Says that nothing waits, and when the last decision was made. */
export function EmptyQueue({ isFiltered }: { readonly isFiltered: boolean }) {
  const lastMs = useLastDecision()
  return (
    <Empty title={isFiltered ? 'Nothing of this kind waits' : 'Nothing waits for a decision'}>
      Payments without an account, held notifications, conflicts, openings without an answer and
      failing endpoints appear here.
      {lastMs !== undefined && (
        <>
          {' '}
          The last decision was made <Time at={lastMs} />.
        </>
      )}
    </Empty>
  )
}

/** When the last item was ended, as far as the caller may read the audit log. */
function useLastDecision(): number | undefined {
  const transport = useTransport()
  const { businessId } = useViewScope()
  const enabled = useMay()(AdminService.method.listAuditEntries)
  const read = useQueries({
    queries: DECISIONS.map((action) => ({
      ...createQueryOptions(
        AdminService.method.listAuditEntries,
        { action, businessId, pageSize: 1 },
        { transport },
      ),
      enabled,
    })),
  })
  const times = read.flatMap(({ data }) => msOf(data?.entries[0]?.at) ?? [])
  return times.length === 0 ? undefined : Math.max(...times)
}
