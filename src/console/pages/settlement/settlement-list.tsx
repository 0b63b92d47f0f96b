import { useInfiniteQuery } from '@connectrpc/connect-query'
import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useBusinessNames } from '../../session/business-names.ts'
import { useHref, useViewScope } from '../../session/view-scope.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { Table } from '../../ui/lists/table.tsx'
import { Section } from '../../ui/page.tsx'
import { dayName, periodOf } from './lagos-calendar.ts'
import { settlementColumns } from './settlement-columns.tsx'

/** The settlements of a day, or the latest ones. */
export function SettlementList({
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
