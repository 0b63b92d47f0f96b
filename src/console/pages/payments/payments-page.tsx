import { createConnectQueryKey, useInfiniteQuery, useTransport } from '@connectrpc/connect-query'
import { type InfiniteData, useQueryClient } from '@tanstack/react-query'
import { useMemo, useRef } from 'react'
import { useSearchParams } from 'wouter'
import type { Transaction } from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { count } from '../../format/money.ts'
import { useLive } from '../../live/live.tsx'
import { useBusinessNames } from '../../session/business-names.ts'
import { useHref, useViewScope } from '../../session/view-scope.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { Table } from '../../ui/lists/table.tsx'
import { Page } from '../../ui/page.tsx'
import { useReading } from '../../ui/reading.ts'
import '../../styles/payments.css'
import { allColumns, BUSINESS_COLUMNS } from './columns.tsx'
import { type Filters, matches, readFilters, requestOf } from './filters.ts'
import { PaymentFilters } from './payment-filters.tsx'
import { useLiveRows } from './use-live-rows.ts'

const PAGE_SIZE = 50

/** Payments, newest first, as they arrive. */
export function PaymentsPage() {
  const [params] = useSearchParams()
  const scope = useViewScope()
  const filters = useMemo(() => readFilters(params, scope), [params, scope])
  const key = JSON.stringify(requestOf(filters, PAGE_SIZE), (_key, value) =>
    typeof value === 'bigint' ? String(value) : value,
  )
  return (
    <Page title="Payments" isWide>
      <PaymentFilters />
      <PaymentList key={key} filters={filters} />
    </Page>
  )
}

function PaymentList({ filters }: { readonly filters: Filters }) {
  const place = useRef<HTMLDivElement>(null)
  const href = useHref()
  const pages = useInfiniteQuery(
    TransactionService.method.listTransactions,
    requestOf(filters, PAGE_SIZE),
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
      // Payments arrive all the time: what was read when the list was last open is old.
      staleTime: 0,
    },
  )
  const read = useMemo(
    () => pages.data?.pages.flatMap(({ transactions }) => transactions) ?? [],
    [pages.data],
  )
  const reading = useReading(place, 'tbody', () => live.release())
  const trim = useTrim(filters)
  const live = useLiveRows({
    read,
    matches: (payment) => matches(payment, filters),
    reading,
    reread: () => {
      trim()
      void pages.refetch()
    },
  })
  const columns = useColumnsOf(filters.businessId, live.rows)
  const showAll = () => {
    window.scrollTo({ top: 0 })
    live.release()
  }
  return (
    <div ref={place} className="payment-list">
      <Arrivals waitingCount={live.waitingCount} onShow={showAll} />
      <ListFrame
        pages={live.isCut ? { ...pages, hasNextPage: false } : pages}
        isEmpty={live.rows.length === 0}
        empty={<NoPayments filters={filters} />}
      >
        <Table
          label="Payments"
          columns={columns}
          rows={live.rows}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => href(`/payments/${id}`)}
          fresh={live.fresh}
        />
      </ListFrame>
      {live.isCut && (
        <div className="more">
          <Button
            onClick={() => {
              window.scrollTo({ top: 0 })
              live.restart()
            }}
          >
            Read the list again to see earlier payments
          </Button>
        </div>
      )}
    </div>
  )
}

/** The columns; they change only when another name is known, so that rows are not drawn again for nothing. */
function useColumnsOf(businessId: string, rows: readonly Transaction[]) {
  const nameOf = useBusinessNames(businessId === '' ? rows.map((row) => row.businessId) : [])
  const known = [...new Set(rows.map((row) => nameOf(row.businessId)))].sort().join('\n')
  // biome-ignore lint/correctness/useExhaustiveDependencies: the names, not the function that returns them
  return useMemo(
    () => (businessId === '' ? allColumns(nameOf) : BUSINESS_COLUMNS),
    [businessId, known],
  )
}

/** Returns a function that forgets all pages but the first, so that only that one is read again. */
function useTrim(filters: Filters): () => void {
  const queries = useQueryClient()
  const transport = useTransport()
  return () => {
    const queryKey = createConnectQueryKey({
      schema: TransactionService.method.listTransactions,
      input: requestOf(filters, PAGE_SIZE),
      pageParamKey: 'pageToken',
      cardinality: 'infinite',
      transport,
    })
    queries.setQueryData<InfiniteData<unknown>>(queryKey, (data) =>
      data === undefined
        ? undefined
        : { pages: data.pages.slice(0, 1), pageParams: data.pageParams.slice(0, 1) },
    )
  }
}

/** How many payments wait to be shown. Screen readers hear of them too; there is always one region for it. */
function Arrivals({
  waitingCount,
  onShow,
}: {
  readonly waitingCount: number
  readonly onShow: () => void
}) {
  return (
    <div className="arrivals" aria-live="polite">
      {waitingCount > 0 && (
        <button type="button" className="pill" onClick={onShow}>
          {count(waitingCount)} new
        </button>
      )}
    </div>
  )
}

function NoPayments({ filters }: { readonly filters: Filters }) {
  const { state } = useLive()
  const isFiltered =
    filters.status !== undefined ||
    filters.variance !== undefined ||
    filters.holdState !== undefined ||
    filters.bank !== 0 ||
    filters.reference !== '' ||
    filters.fromMinor > 0n ||
    filters.toMinor > 0n ||
    filters.fromMs !== undefined ||
    filters.toMs !== undefined
  if (isFiltered) return <Empty title="No payment is like this">Change or clear a filter.</Empty>
  const arrives = state.kind === 'live' ? 'They appear here as they arrive.' : ''
  return (
    <Empty
      title={`No payments in ${filters.live ? 'live' : 'test'} mode yet`}
      command="inflow transfer simulate --account 1234567890 --amount 1500.50"
    >
      {arrives} This command simulates one into an account at a sandbox bank:
    </Empty>
  )
}
