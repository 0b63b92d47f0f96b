import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { createConnectQueryKey, useTransport } from '@connectrpc/connect-query'
import { type InfiniteData, useQueryClient } from '@tanstack/react-query'
import { useEffect, useId, useMemo, useRef, useState } from 'react'
import { useSearchParams } from 'wouter'
import type { Event } from '../../../gen/inflow/event/v1/event_pb.ts'
import {
  HoldState,
  HoldStateSchema,
  type Transaction,
  TransactionSchema,
  TransactionStatusSchema,
  VarianceSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank, BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { bankName, enumChoices, enumValue } from '../format/enums.ts'
import { parseNaira } from '../format/money.ts'
import { useEvents, useLive } from '../session/live.tsx'
import { useRestricted } from '../session/session.tsx'
import { useUrlState, useViewScope, type ViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { ChoiceFilter, FilterBar, readTime, TextFilter, TimeFilter } from '../ui/filters.tsx'
import { List, NewRows, usePagedList } from '../ui/list.tsx'
import { arrive, joinRows, type LiveRows, NO_ROWS, release } from '../ui/live-rows.ts'
import { Empty, Page } from '../ui/page.tsx'
import { Popover } from '../ui/popover.tsx'
import { useReading } from '../ui/reading.ts'
import { Clipped, Id, PageLink, Time } from '../ui/values.tsx'
import { amountShown, PaymentStatus, PaymentTotals } from './payment-words.tsx'

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

/** The filters of the list, without business and mode, which are chosen in the bar above. */
function PaymentFilters() {
  const { businessId } = useViewScope()
  return (
    <FilterBar>
      <ChoiceFilter name="status" label="Status" choices={enumChoices(TransactionStatusSchema)} />
      <ChoiceFilter name="bank" label="Bank" choices={enumChoices(BankSchema)} />
      <AmountFilter />
      <TimeFilter label={businessId === '' ? 'Recorded' : 'Paid'} />
      <ChoiceFilter name="variance" label="Variance" choices={enumChoices(VarianceSchema)} />
      <ChoiceFilter name="hold" label="Held" choices={enumChoices(HoldStateSchema)} />
      {businessId !== '' && (
        <TextFilter name="account" label="Account" placeholder="R-… or your reference" />
      )}
    </FilterBar>
  )
}

/** The smallest and the largest amount in naira, both inclusive. */
function AmountFilter() {
  const [min, setMin] = useUrlState('min')
  const [max, setMax] = useUrlState('max')
  const isSet = min !== '' || max !== ''
  const label = isSet ? `Amount: ${min === '' ? '0' : min} – ${max === '' ? '…' : max}` : 'Amount'
  return (
    <Popover label={label} isSet={isSet}>
      <AmountField label="From" value={min} onChange={setMin} />
      <AmountField label="To" value={max} onChange={setMax} />
      <div className="dialog-buttons">
        <Button
          onClick={() => {
            setMin('')
            setMax('')
          }}
        >
          Clear
        </Button>
      </div>
    </Popover>
  )
}

interface AmountFieldProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
}

/** Takes effect on Enter, or when the focus leaves it. */
function AmountField({ label, value, onChange }: AmountFieldProps) {
  const [text, setText] = useState(value)
  const [given, setGiven] = useState(value)
  const fault = useId()
  if (given !== value) {
    setGiven(value)
    setText(value)
  }
  const isFault = text !== '' && parseNaira(text) === undefined
  const apply = () => {
    if (!isFault && text.trim() !== value) onChange(text.trim())
  }
  return (
    <label className="field">
      {label}
      <input
        value={text}
        inputMode="decimal"
        placeholder="₦ 1,500.50"
        maxLength={24}
        aria-invalid={isFault}
        aria-describedby={isFault ? fault : undefined}
        onChange={(event) => setText(event.target.value)}
        onBlur={apply}
        onKeyDown={(event) => {
          if (event.key === 'Enter') apply()
        }}
      />
      {isFault && (
        <span className="fault" id={fault}>
          An amount in naira, such as 1,500.50
        </span>
      )}
    </label>
  )
}

/** The filters of the list in the URL. */
type Filters = ReturnType<typeof readFilters>

/** Reads the filters of a URL; values that are not valid are left out. */
function readFilters(params: URLSearchParams, scope: ViewScope) {
  const text = (name: string) => params.get(name) ?? ''
  return {
    ...scope,
    status: enumValue(TransactionStatusSchema, text('status')),
    variance: enumValue(VarianceSchema, text('variance')),
    holdState: enumValue(HoldStateSchema, text('hold')),
    bank: enumValue(BankSchema, text('bank')) ?? Bank.BANK_UNSPECIFIED,
    // References are unique only within a business.
    reference: scope.businessId === '' ? '' : text('account'),
    // 0: no limit.
    fromMinor: parseNaira(text('min')) ?? 0n,
    toMinor: parseNaira(text('max')) ?? 0n,
    fromMs: readTime(text('from')),
    toMs: readTime(text('to')),
  }
}

/** Whether any filter is set besides mode and business. */
function isFiltered({ live: _live, businessId: _one, ...filters }: Filters): boolean {
  return Object.values(filters).some(Boolean)
}

/** The filters of a request, for the list and for its totals. */
function requestOf(filters: Filters) {
  const { fromMs, toMs, status, variance, holdState } = filters
  const from = fromMs === undefined ? undefined : timestampFromMs(fromMs)
  const to = toMs === undefined ? undefined : timestampFromMs(toMs)
  const isOfAll = filters.businessId === ''
  return {
    businessId: filters.businessId,
    live: filters.live,
    reference: filters.reference,
    bank: filters.bank,
    statuses: status === undefined ? [] : [status],
    variances: variance === undefined ? [] : [variance],
    holdStates: holdState === undefined ? [] : [holdState],
    amountFromMinor: filters.fromMinor,
    // The service would refuse an upper limit below the lower limit.
    amountToMinor: filters.toMinor < filters.fromMinor ? 0n : filters.toMinor,
    ...(from && (isOfAll ? { recordedFrom: from } : { from })),
    ...(to && (isOfAll ? { recordedTo: to } : { to })),
  }
}

function PaymentList({ filters }: { readonly filters: Filters }) {
  const place = useRef<HTMLDivElement>(null)
  const request = { ...requestOf(filters), pageSize: PAGE_SIZE }
  // Payments arrive all the time, so cached pages of the list are stale.
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

/** Returns a function that forgets all pages except the first, so that only the first page is read again. */
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

/** The rows of a list to which new payments are added at the top, unless the viewer is reading it. */
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

/** Whether an event is the arrival of a payment: accepting a held payment is not, because it arrived earlier. */
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

/** Reads again when the stream starts: payments recorded between the first reading and the start are in neither. */
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

/** Whether a new payment matches the filters of the list. */
function matches(payment: Transaction, filters: Filters): boolean {
  const { status, variance, holdState, bank, fromMinor, toMinor } = filters
  if (payment.live !== filters.live) return false
  if (filters.businessId !== '' && payment.businessId !== filters.businessId) return false
  if (status !== undefined && payment.status !== status) return false
  if (variance !== undefined && payment.variance !== variance) return false
  if (holdState !== undefined && payment.holdState !== holdState) return false
  if (bank !== Bank.BANK_UNSPECIFIED && payment.bank !== bank) return false
  if (payment.amountMinor < fromMinor) return false
  if (toMinor >= fromMinor && toMinor > 0n && payment.amountMinor > toMinor) return false
  return isOfAccount(payment, filters.reference) && isInTime(payment, filters)
}

function isOfAccount(payment: Transaction, reference: string): boolean {
  if (reference === '') return true
  return payment.accountReference === reference || payment.merchantReference === reference
}

function isInTime(payment: Transaction, { businessId, fromMs, toMs }: Filters): boolean {
  // The period of a list of all businesses refers to the time of recording.
  const at = businessId === '' ? (payment.recordedAt ?? payment.paidAt) : payment.paidAt
  if (at === undefined) return true
  const ms = timestampMs(at)
  return ms >= (fromMs ?? 0) && ms < (toMs ?? Number.POSITIVE_INFINITY)
}
