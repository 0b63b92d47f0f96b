import { createConnectQueryKey, useQuery } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { useParams } from 'wouter'
import {
  type Discrepancy,
  DiscrepancySchema,
  EntrySchema,
  type Settlement,
  type SettlementPayout,
  SettlementSchema,
  SettlementStatus,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  SettlementService,
  type VerifyLedgerResponse,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { shorten, words } from '../format/ids.ts'
import { count, naira } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useBusinessName } from '../session/business-names.ts'
import { useEvents } from '../session/live.tsx'
import { useMay, useRestricted } from '../session/session.tsx'
import { useShowObject, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { List, Table, usePagedList } from '../ui/list.tsx'
import { Empty, Failure, Loaded, Page, Section, Waiting } from '../ui/page.tsx'
import { useProgress } from '../ui/progress.ts'
import { Dash, Figure, Money, PageLink, Status, Time, useNow } from '../ui/values.tsx'
import { dayAt, dayName, periodOf } from './lagos-calendar.ts'
import { Calendar } from './settlement-calendar.tsx'
import { Preview, RunSettlement } from './settlement-run.tsx'
import { Holidays, SettlementTerms } from './settlement-terms.tsx'
import { StatementDownload } from './statement-download.tsx'

const METHODS = SettlementService.method

/** The calendar, the settlements, and, for one business, its balance and terms. */
export function SettlementPage() {
  const { businessId, live } = useViewScope()
  const [month, setMonth] = useUrlState('month', dayAt(Date.now()).slice(0, 7))
  const [day, setDay] = useUrlState('day')
  const may = useMay()
  const isRestricted = useRestricted()
  useSettlementRefresh()
  const show = (next: string) => {
    setDay('')
    setMonth(next)
  }
  return (
    <Page
      title="Settlement"
      actions={
        <>
          {businessId !== '' && <StatementDownload businessId={businessId} />}
          {may(METHODS.settle) && (businessId !== '' || !isRestricted) && (
            // The key resets the form for another business or mode.
            <RunSettlement key={`${businessId} ${live}`} businessId={businessId} />
          )}
        </>
      }
    >
      {businessId !== '' && <BalanceFigures businessId={businessId} />}
      <Calendar month={month} onMonth={show} day={day} onDay={setDay} />
      <SettlementList day={day} onAll={() => setDay('')} />
      <Preview />
      {businessId !== '' && <SettlementTerms businessId={businessId} />}
      {may(METHODS.listHolidays) && <Holidays />}
      {may(METHODS.verifyLedger) && <LedgerVerification />}
    </Page>
  )
}

/** Reads the settlements, balances and the calendar again when a settlement completes. */
function useSettlementRefresh(): void {
  const queries = useQueryClient()
  useEvents((events) => {
    if (!events.some(({ payload }) => payload.case === 'settlement')) return
    void queries.invalidateQueries({
      queryKey: createConnectQueryKey({ schema: SettlementService, cardinality: undefined }),
    })
  })
}

/** The balance of a business: received, available, and the fees so far. */
function BalanceFigures({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const read = useQuery(METHODS.getBalance, { businessId, test: !live })
  if (read.error) return <Failure error={read.error} onRetry={() => void read.refetch()} />
  const { balance } = read.data ?? {}
  if (balance === undefined) return <Waiting rows={2} />
  const figures = [
    ['Pending', balance.pendingMinor, 'received, not settled yet'],
    ['Available', balance.availableMinor, 'settled, less fees, reversals and payouts'],
    ['Reserved', balance.reservedMinor, 'for payouts that are not final'],
    ['Fees', balance.feesMinor, 'charged so far'],
  ] as const
  return (
    <ul className="figures" aria-label="Balance">
      {figures.map(([title, minor, note]) => (
        <Figure key={title} title={title} note={note}>
          {naira(minor)}
        </Figure>
      ))}
    </ul>
  )
}

/** The settlements of a day, or the latest settlements. @param day empty: any day */
function SettlementList({ day, onAll }: { readonly day: string; readonly onAll: () => void }) {
  const { live, businessId } = useViewScope()
  const settlements = usePagedList(METHODS.listSettlements, 'settlements', {
    live,
    businessId,
    ...(day !== '' && periodOf(day, day)),
  })
  const options = [businessId && ` --business ${businessId}`, !live && ' --test']
  return (
    <Section
      title={day === '' ? 'Latest settlements' : `Settlements of ${dayName(day)}`}
      actions={day !== '' && <Button onClick={onAll}>All days</Button>}
    >
      <List
        label="Settlements"
        columns={COLUMNS}
        of={settlements}
        hrefOf={({ id }, href) => href(`/settlement/${id}`)}
        empty={
          day === '' ? (
            <Empty
              title="Nothing was settled yet"
              command={`inflow settle run${options.filter(Boolean).join('')}`}
            >
              Payments are settled when they are due by the terms of their business.
            </Empty>
          ) : (
            <p className="soft">No settlement started on this day.</p>
          )
        }
      />
    </Section>
  )
}

const COLUMNS = columnsOf(SettlementSchema, [
  'startedAt',
  'businessId',
  ['Status', stateShown],
  'transactionCount',
  'grossMinor',
  'feesMinor',
  'splitsMinor',
  'netMinor',
  ['Settlement', 'id'],
])

function stateShown({ status, percentDone }: Settlement) {
  if (status === SettlementStatus.COMPLETED) return <Status tone="good">Completed</Status>
  return <Status tone="waiting">{`Running, ${percentDone} %`}</Status>
}

function LedgerVerification() {
  const { state, at, error, start, resume, stop } = useProgress(
    SettlementService,
    NOT_BEGUN,
    (client, { cursor }, options) => client.verifyLedger({ from: cursor }, options),
    addFound,
  )
  const isRunning = state === 'running'
  const isInterrupted = !isRunning && state !== 'idle' && at.endedMs === undefined
  const begin = () => start({ ...NOT_BEGUN, startedMs: Date.now() })
  return (
    <Section
      title="Ledger"
      actions={
        <>
          {isRunning && <Button onClick={stop}>Stop</Button>}
          {isInterrupted && <Button onClick={resume}>Continue</Button>}
          {!isRunning && <Button onClick={begin}>Verify the ledger</Button>}
        </>
      }
    >
      {state === 'idle' && (
        <p className="soft">
          Compares every transaction with its postings and events, every settlement with its
          payments and fees, and every balance with all postings.
        </p>
      )}
      {error !== undefined && <Failure error={error} onRetry={resume} />}
      {state !== 'idle' && <VerificationProgress verification={at} isRunning={isRunning} />}
      {at.discrepancies.length > 0 && (
        <Table
          label="Discrepancies"
          columns={DISCREPANCY_COLUMNS}
          rows={at.discrepancies}
          keyOf={({ subject, problem }) => `${subject} ${problem}`}
        />
      )}
    </Section>
  )
}

const DISCREPANCY_COLUMNS = columnsOf(DiscrepancySchema, [
  ['Of', ({ subject }) => <code>{subject}</code>],
  ['Discrepancy', 'problem'],
])

function VerificationProgress({
  verification,
  isRunning,
}: {
  verification: Verification
  isRunning: boolean
}) {
  const { startedMs, endedMs, transactions, postings, estimated } = verification
  const { discrepancyCount } = verification
  const now = useNow()
  const elapsedMs = Math.max(0, (endedMs ?? now) - startedMs)
  const value = estimated > 0n && {
    value: Math.min(100, Number((transactions * 100n) / estimated)),
  }
  return (
    <div className="verification">
      {isRunning && <progress aria-label="Verified" max={100} {...value} />}
      <p role="status">
        <VerificationOutcome verification={verification} isRunning={isRunning} />{' '}
        {count(transactions)}
        {isRunning && estimated > 0n && ` of about ${count(estimated)}`} transactions,{' '}
        {count(postings)} postings, {count(discrepancyCount)} discrepancies in{' '}
        {durationText(elapsedMs)}.
      </p>
    </div>
  )
}

function VerificationOutcome({
  verification,
  isRunning,
}: {
  verification: Verification
  isRunning: boolean
}) {
  if (isRunning) return <Status tone="waiting">Verifying</Status>
  if (verification.endedMs === undefined) return <Status tone="waiting">Interrupted</Status>
  if (verification.discrepancyCount > 0n) return <Status tone="bad">Discrepancies</Status>
  return <Status tone="good">It adds up</Status>
}

const NOT_BEGUN = {
  startedMs: 0,
  /** Undefined: the verification is not complete yet. */
  endedMs: undefined as number | undefined,
  transactions: 0n,
  postings: 0n,
  /** 0: unknown. */
  estimated: 0n,
  /** The first 1,000 discrepancies. */
  discrepancies: [] as readonly Discrepancy[],
  discrepancyCount: 0n,
  cursor: '',
}

type Verification = Readonly<typeof NOT_BEGUN>

/** Adds the findings of a continued verification to those of the interrupted one. */
function addFound(
  now: Verification,
  message: VerifyLedgerResponse,
  from: Verification,
): Verification {
  return {
    ...now,
    transactions: from.transactions + message.transactions,
    postings: from.postings + message.postings,
    estimated: from.estimated || message.estimatedTransactions,
    discrepancies: [...now.discrepancies, ...message.discrepancies],
    discrepancyCount: from.discrepancyCount + message.discrepancyCount,
    cursor: message.cursor || now.cursor,
    ...(message.completed && { endedMs: Date.now() }),
  }
}

/** One settlement: its amounts, and its payments. */
export function SettlementDetails() {
  const { id = '' } = useParams()
  const read = useQuery(METHODS.listSettlements, { settlementId: id })
  useSettlementRefresh()
  const [settlement] = read.data?.settlements ?? []
  useShowObject(settlement)
  return (
    <Page title="Settlement">
      <Loaded read={read} rows={8}>
        {() =>
          settlement ? (
            <>
              <Known settlement={settlement} />
              <Payments settlement={settlement} />
            </>
          ) : (
            <Empty title="There is no such settlement">It may belong to another business.</Empty>
          )
        }
      </Loaded>
    </Page>
  )
}

function Known({ settlement }: { readonly settlement: Settlement }) {
  const { requestId } = settlement
  const name = useBusinessName(settlement.businessId)
  return (
    <div className="panel settlement-facts">
      <MessageFacts
        schema={SettlementSchema}
        of={settlement}
        facts={[
          ['Settlement', 'id'],
          ['Status', stateShown],
          ['Mode', ({ live }) => (live ? 'Live' : 'Test')],
          ['Business', () => name],
          'transactionCount',
          ['Gross', ({ grossMinor }) => <Money minor={grossMinor} />],
          ['Fees', ({ feesMinor }) => <Money minor={feesMinor} />],
          [
            'Shares of others',
            ({ splitsMinor }) =>
              splitsMinor > 0n && (
                <>
                  <Money minor={splitsMinor} />{' '}
                  <span className="faint">
                    went to the businesses that these payments are divided with; each payment names
                    them
                  </span>
                </>
              ),
          ],
          [
            'Net',
            ({ netMinor }) => (
              <strong>
                <Money minor={netMinor} />
              </strong>
            ),
          ],
          ['Payout', ({ payout }) => payout && <PayoutOf payout={payout} />],
          'cutOffAt',
          'startedAt',
          'completedAt',
          ['Started by', () => (requestId === '' ? 'the schedule' : `the request ${requestId}`)],
          ['Schedule', ({ forced }) => forced && 'overridden'],
        ]}
      />
    </div>
  )
}

/** The payout of a settlement, or the reason why there is none or it was not paid. */
function PayoutOf({ payout: { payoutId, detail, nextAt } }: { readonly payout: SettlementPayout }) {
  return (
    <>
      {payoutId !== '' && <PageLink to={`/payouts/${payoutId}`}>{payoutId}</PageLink>}
      {detail !== '' && (
        <p>
          Not paid out. {detail}.{' '}
          {nextAt ? (
            <>
              It is tried again <Time at={nextAt} />.
            </>
          ) : (
            'It is not tried again.'
          )}
        </p>
      )}
      {payoutId === '' && detail === '' && 'is being requested'}
    </>
  )
}

const ENTRY_COLUMNS = columnsOf(EntrySchema, [
  'bookedAt',
  ['Entry', ({ kind }) => words(kind)],
  [
    'Payment or payout',
    ({ transactionId, payoutId }) => {
      const id = transactionId || payoutId
      if (id === '') return <Dash />
      const page = transactionId === '' ? 'payouts' : 'payments'
      return <PageLink to={`/${page}/${id}`}>{shorten(id, 20)}</PageLink>
    },
  ],
  'sessionId',
  'pendingMinor',
  'availableMinor',
  'feesMinor',
])

/** The entries since the previous settlement, which include the payments of this one. */
function Payments({ settlement: { id, businessId, live } }: { readonly settlement: Settlement }) {
  const request = { businessId, settlementId: id, test: !live, pageSize: 200 }
  const entries = usePagedList(METHODS.listEntries, 'entries', request)
  return (
    <Section title="Payments and other entries since the previous settlement">
      <List
        label="Entries"
        columns={ENTRY_COLUMNS}
        of={entries}
        keyOf={({ sequence }) => `${sequence}`}
        hrefOf={({ transactionId, payoutId }, href) => {
          if (transactionId !== '') return href(`/payments/${transactionId}`)
          return href(payoutId === '' ? `/settlement/${id}` : `/payouts/${payoutId}`)
        }}
        empty={<p className="soft">It has no entries.</p>}
      />
    </Section>
  )
}
