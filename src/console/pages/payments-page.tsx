import { createConnectQueryKey, useTransport } from '@connectrpc/connect-query'
import { type InfiniteData, useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo, useRef, useState } from 'react'
import { useSearchParams } from 'wouter'
import type { Event } from '../../../gen/inflow/event/v1/event_pb.ts'
import {
  HoldState,
  type Transaction,
  TransactionSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { bankName } from '../format/enums.ts'
import { useEvents, useLive } from '../session/live.tsx'
import { useRestricted } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { List, NewRows, usePagedList } from '../ui/list.tsx'
import { arrive, joinRows, type LiveRows, NO_ROWS, release } from '../ui/live-rows.ts'
import { Empty, Page } from '../ui/page.tsx'
import { useReading } from '../ui/reading.ts'
import { Clipped, Id, PageLink, Time } from '../ui/values.tsx'
import {
  type Filters,
  isFiltered,
  matches,
  PaymentFilters,
  readFilters,
  requestOf,
} from './payment-filters.tsx'
import { PaymentTotals } from './payment-totals.tsx'
import { amountShown, PaymentStatus } from './payment-words.tsx'

const LIST = TransactionService.method.listTransactions

const PAGE_SIZE = 50

export function PaymentsPage() {
  const [params] = useSearchParams()
  const scope = useViewScope()
  const filters = useMemo(() => readFilters(params, scope), [params, scope])
  const key = JSON.stringify(requestOf(filters), (_key, value) =>
    typeof value === 'bigint' ? String(value) : value,
  )
  return (
    <Page title="Payments" isWide>
      <PaymentFilters />
      {isFiltered(filters) && <PaymentTotals filter={requestOf(filters)} />}
      <PaymentList key={key} filters={filters} />
    </Page>
  )
}

function PaymentList({ filters }: { readonly filters: Filters }) {
  const place = useRef<HTMLDivElement>(null)
  const request = { ...requestOf(filters), pageSize: PAGE_SIZE }
  // Payments arrive all the time: what was read when the list was last open is old.
  const options = { staleTime: 0 }
  const { rows: read, pages, source } = usePagedList(LIST, 'transactions', request, options)
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
  const showAll = () => {
    window.scrollTo({ top: 0 })
    live.release()
  }
  return (
    <div ref={place} className="payment-list">
      <NewRows count={live.waitingCount} onShow={showAll} />
      <List
        label="Payments"
        columns={COLUMNS}
        of={{
          rows: live.rows,
          pages: live.isCut ? { ...pages, hasNextPage: false } : pages,
          source,
        }}
        hrefOf={({ id }, href) => href(`/payments/${id}`)}
        fresh={live.fresh}
        isExported
        empty={<NoPayments filters={filters} />}
      />
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

/** Returns a function that forgets all pages but the first, so that only that one is read again. */
function useTrim(filters: Filters): () => void {
  const queries = useQueryClient()
  const transport = useTransport()
  return () => {
    const queryKey = createConnectQueryKey({
      schema: LIST,
      input: { ...requestOf(filters), pageSize: PAGE_SIZE, pageToken: '' },
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

function NoPayments({ filters }: { readonly filters: Filters }) {
  const { state } = useLive()
  const isPortal = useRestricted()
  const { live } = filters
  if (isFiltered(filters))
    return <Empty title="No payment is like this">Change or clear a filter.</Empty>
  const arrives = state.kind === 'live' ? 'They appear here as they arrive.' : ''
  return (
    <Empty
      title={`No payments in ${live ? 'live' : 'test'} mode yet`}
      command="inflow transfer simulate --account 1234567890 --amount 1500.50"
    >
      {arrives} {!isPortal && 'This command simulates one into an account at a sandbox bank:'}
    </Empty>
  )
}

const COLUMNS = columnsOf(TransactionSchema, [
  'paidAt',
  ['Amount', amountShown, 'number'],
  ['Status', (payment) => <PaymentStatus payment={payment} />],
  ['Customer', ({ customerName }) => <Clipped text={customerName} />],
  [
    'Account',
    ({ businessId, accountReference, accountNumber }) => (
      <PageLink to={`/accounts/${businessId}/${accountReference}`}>
        <code>{accountNumber}</code>
      </PageLink>
    ),
    'wide',
  ],
  ['Bank', ({ bank }) => bankName(bank), 'wide'],
  ['Payer', ({ payer }) => <Clipped text={payer?.name ?? ''} />],
  ['Session', ({ sessionId }) => <Id text={sessionId} charsMax={15} />, 'wide'],
  ['Business', 'businessId', 'wide'],
  ['Variance', 'variance', 'extra'],
  ['Reference', ({ merchantReference }) => <Clipped text={merchantReference} />, 'extra'],
  ['E-mail', 'customerEmail', 'extra'],
  ['Narration', ({ narration }) => <Clipped text={narration} />, 'extra'],
  ['Settles', ({ settlesAt, settled }) => (settled ? 'Settled' : <Time at={settlesAt} />), 'extra'],
  ['Id', 'id', 'extra'],
])

/** The rows of a list that grows above as payments arrive, unless the viewer reads it. */
function useLiveRows(options: {
  readonly read: readonly Transaction[]
  readonly matches: (payment: Transaction) => boolean
  readonly reading: { readonly current: boolean }
  /** Reads the list from the beginning. */
  readonly reread: () => void
}) {
  const { read, matches, reading, reread } = options
  const [rows, setRows] = useState<LiveRows<Transaction>>(NO_ROWS)
  const known = useMemo(() => new Set(read.map(({ id }) => id)), [read])
  const restart = () => {
    setRows(NO_ROWS)
    reread()
  }
  useEvents((events, missed) => {
    if (missed && events.length === 0) return restart()
    const recorded = events.filter(isArrival).flatMap(paymentOf)
    const changed = events.filter((event) => !isArrival(event)).flatMap(paymentOf)
    const isHeld = reading.current
    setRows((now) => arrive(now, { recorded, changed, matches, known, isHeld, missed }))
  })
  useRereadOnceLive(reread)
  const joined = useMemo(() => joinRows(rows, read), [rows, read])
  const fresh = useMemo(() => new Set(rows.fresh), [rows.fresh])
  return {
    rows: joined,
    fresh,
    waitingCount: rows.waitingCount,
    isCut: rows.isCut,
    release: () => setRows(release),
    restart,
  }
}

/** Whether a payment was recorded: one that was on hold was so before. */
function isArrival({ kind, payload }: Event): boolean {
  if (kind === 'PAYMENT_ON_HOLD') return true
  const wasHeld =
    payload.case === 'transaction' && payload.value.holdState !== HoldState.UNSPECIFIED
  return kind === 'PAYMENT_NOTIFICATION' && !wasHeld
}

/** The payment of an event; it was credited when the event was recorded. */
function paymentOf({ payload, occurredAt }: Event): Transaction[] {
  if (payload.case !== 'transaction') return []
  return [{ ...payload.value, ...(occurredAt && { recordedAt: occurredAt }) }]
}

/** What was recorded between the first reading and the start of the stream is in neither. */
function useRereadOnceLive(reread: () => void): void {
  const { state } = useLive()
  const wasLive = useRef(state.kind === 'live')
  const latest = useRef(reread)
  latest.current = reread
  useEffect(() => {
    if (state.kind !== 'live' || wasLive.current) return
    wasLive.current = true
    latest.current()
  }, [state.kind])
}
