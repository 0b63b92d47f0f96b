import { createQueryOptions, useQuery, useTransport } from '@connectrpc/connect-query'
import { useQueries } from '@tanstack/react-query'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import { OverviewService } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../../../gen/inflow/overview/v1/search_pb.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Empty } from '../../ui/lists/empty.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { AccountTable } from './account-table.tsx'

/** The accounts that a reference, a number, an id or an e-mail address belongs to. */
export function FoundAccounts({ text }: { readonly text: string }) {
  const { live, businessId } = useViewScope()
  const transport = useTransport()
  const found = useQuery(OverviewService.method.search, { query: text, live, businessId })
  const results = found.data?.results.filter(({ kind }) => kind === ResultKind.ACCOUNT) ?? []
  const reads = useQueries({
    queries: results.map(({ businessId: owner, reference }) =>
      createQueryOptions(
        AccountService.method.getAccount,
        { businessId: owner, reference },
        { transport },
      ),
    ),
  })
  const error = found.error ?? reads.find((read) => read.error)?.error
  if (error) return <Failure error={error} onRetry={() => void found.refetch()} />
  if (found.isPending || reads.some(({ isPending }) => isPending)) return <Waiting rows={3} />
  const accounts = reads.flatMap(({ data }) => data?.account ?? [])
  if (accounts.length === 0) {
    return (
      <Empty title="No account has it">
        A reference, an account number, an id and an e-mail address must be whole.
      </Empty>
    )
  }
  return <AccountTable accounts={accounts} />
}
