import '../styles/settlement.css'
import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import type { Entry, Settlement } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useBusinessName } from '../app/top-bar.tsx'
import { shorten, words } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { useHref, useShowObject } from '../session/view-scope.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty, Facts, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Id, Money, PageLink, Time } from '../ui/values.tsx'
import { State } from './settlement-columns.tsx'
import { useSettlementRefresh } from './use-settlement-refresh.ts'

/** One settlement: what it moved, and its payments. */
export function SettlementDetails() {
  const { id = '' } = useParams()
  const read = useQuery(SettlementService.method.listSettlements, { settlementId: id })
  useSettlementRefresh()
  const [settlement] = read.data?.settlements ?? []
  useShowObject(settlement)
  return (
    <Page title="Settlement">
      {read.error && <Failure error={read.error} onRetry={() => void read.refetch()} />}
      {read.isPending && <Waiting rows={8} />}
      {read.data && settlement === undefined && (
        <Empty title="There is no such settlement">It may belong to another business.</Empty>
      )}
      {settlement && <Known settlement={settlement} />}
      {settlement && <Payments settlement={settlement} />}
    </Page>
  )
}

function Known({ settlement }: { readonly settlement: Settlement }) {
  const { businessId, requestId, transactionCount } = settlement
  const name = useBusinessName(businessId)
  return (
    <div className="panel settlement-facts">
      <Facts
        facts={[
          ['Settlement', <Id key="id" text={settlement.id} charsMax={40} />],
          ['Status', <State key="status" settlement={settlement} />],
          ['Mode', settlement.live ? 'Live' : 'Test'],
          ['Business', name],
          ['Payments', count(transactionCount)],
          ['Gross', <Money key="gross" minor={settlement.grossMinor} />],
          ['Fees', <Money key="fees" minor={settlement.feesMinor} />],
          [
            'Splits',
            settlement.splitsMinor > 0n && <Money key="splits" minor={settlement.splitsMinor} />,
          ],
          [
            'Net',
            <strong key="net">
              <Money minor={settlement.netMinor} />
            </strong>,
          ],
          ['Recorded before', <Time key="cut-off" at={settlement.cutOffAt} />],
          ['Started', <Time key="started" at={settlement.startedAt} />],
          [
            'Completed',
            settlement.completedAt && <Time key="completed" at={settlement.completedAt} />,
          ],
          ['Started by', requestId === '' ? 'the schedule' : `the request ${requestId}`],
          ['Schedule', settlement.forced && 'overridden'],
        ]}
      />
    </div>
  )
}

const COLUMNS: readonly Column<Entry>[] = [
  { key: 'booked', title: 'Booked', render: ({ bookedAt }) => <Time at={bookedAt} /> },
  { key: 'kind', title: 'Entry', render: ({ kind }) => words(kind) },
  {
    key: 'payment',
    title: 'Payment',
    render: ({ transactionId }) =>
      transactionId === '' ? (
        <span className="faint">–</span>
      ) : (
        <PageLink to={`/payments/${transactionId}`}>{shorten(transactionId, 20)}</PageLink>
      ),
  },
  { key: 'session', title: 'Session', render: ({ sessionId }) => <Id text={sessionId} /> },
  {
    key: 'pending',
    title: 'Pending',
    isNumber: true,
    render: ({ pendingMinor }) => <Money minor={pendingMinor} />,
  },
  {
    key: 'available',
    title: 'Available',
    isNumber: true,
    render: ({ availableMinor }) => <Money minor={availableMinor} />,
  },
  {
    key: 'fees',
    title: 'Fees',
    isNumber: true,
    render: ({ feesMinor }) => <Money minor={feesMinor} />,
  },
]

const PAGE_SIZE = 200

/** The entries since the settlement before: its payments are among them. */
function Payments({ settlement }: { readonly settlement: Settlement }) {
  const { id, businessId, live } = settlement
  const href = useHref()
  const pages = useInfiniteQuery(
    SettlementService.method.listEntries,
    { businessId, settlementId: id, test: !live, pageSize: PAGE_SIZE, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
    },
  )
  const rows = pages.data?.pages.flatMap(({ entries }) => entries) ?? []
  return (
    <Section title="Payments and other entries since the settlement before">
      <ListFrame
        pages={pages}
        isEmpty={rows.length === 0}
        empty={<p className="soft">It has no entries.</p>}
      >
        <Table
          label="Entries"
          columns={COLUMNS}
          rows={rows}
          keyOf={({ sequence }) => `${sequence}`}
          hrefOf={({ transactionId }) =>
            href(transactionId === '' ? `/settlement/${id}` : `/payments/${transactionId}`)
          }
        />
      </ListFrame>
    </Section>
  )
}
