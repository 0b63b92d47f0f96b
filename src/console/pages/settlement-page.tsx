import '../styles/figures.css'
import '../styles/settlement.css'
import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { naira } from '../format/money.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useMay, useRestricted } from '../session/session.tsx'
import { useHref, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { ListFrame, Table } from '../ui/list.tsx'
import { Empty, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Holidays } from './holidays.tsx'
import { dayAt, dayName, periodOf } from './lagos-calendar.ts'
import { LedgerVerification } from './ledger-verification.tsx'
import { RunSettlement } from './run-settlement.tsx'
import { Calendar } from './settlement-calendar.tsx'
import { settlementColumns } from './settlement-columns.tsx'
import { Preview } from './settlement-preview.tsx'
import { SettlementTerms } from './settlement-terms.tsx'
import { StatementDownload } from './statement-download.tsx'
import { useSettlementRefresh } from './use-settlement-refresh.ts'

/** What is settled when: the calendar, the settlements, and, for one business, its balance and terms. */
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
          {may(SettlementService.method.settle) && (businessId !== '' || !isRestricted) && (
            // What was begun for one business or mode is not repeated for another.
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
      {may(SettlementService.method.listHolidays) && <Holidays />}
      {may(SettlementService.method.verifyLedger) && <LedgerVerification />}
    </Page>
  )
}

/** What a business has: received, available, and the fees so far. */
function BalanceFigures({ businessId }: { readonly businessId: string }) {
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

/** The settlements of a day, or the latest ones. */
function SettlementList({
  day,
  onAll,
}: {
  /** Empty: any day. */
  readonly day: string
  readonly onAll: () => void
}) {
  const { live, businessId } = useViewScope()
  const href = useHref()
  const pages = useInfiniteQuery(
    SettlementService.method.listSettlements,
    { live, businessId, pageToken: '', ...(day !== '' && periodOf(day, day)) },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
    },
  )
  const rows = pages.data?.pages.flatMap(({ settlements }) => settlements) ?? []
  const nameOf = useBusinessNames(rows.map((row) => row.businessId))
  return (
    <Section
      title={day === '' ? 'Latest settlements' : `Settlements of ${dayName(day)}`}
      actions={day !== '' && <Button onClick={onAll}>All days</Button>}
    >
      <ListFrame pages={pages} isEmpty={rows.length === 0} empty={<NoSettlements day={day} />}>
        <Table
          label="Settlements"
          columns={settlementColumns(businessId === '' ? nameOf : undefined)}
          rows={rows}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => href(`/settlement/${id}`)}
        />
      </ListFrame>
    </Section>
  )
}

function NoSettlements({ day }: { readonly day: string }) {
  const { live, businessId } = useViewScope()
  if (day !== '') return <p className="soft">No settlement started on this day.</p>
  const options = [businessId && ` --business ${businessId}`, !live && ' --test']
  return (
    <Empty
      title="Nothing was settled yet"
      command={`inflow settle run${options.filter(Boolean).join('')}`}
    >
      Payments are settled when they are due by the terms of their business.
    </Empty>
  )
}
