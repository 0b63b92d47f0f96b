import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { useInfiniteQuery } from '@connectrpc/connect-query'
import { useState } from 'react'
import { AdminService } from '../../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { AuditEntry } from '../../../../gen/inflow/admin/v1/audit_pb.ts'
import { useBusinessNames } from '../../session/business-names.ts'
import { useMay } from '../../session/session.tsx'
import { useUrlState, useViewScope } from '../../session/view-scope.ts'
import { FilterBar, readTime, TextFilter, TimeFilter } from '../../ui/controls/filters.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Id, Time } from '../../ui/values.tsx'
import { ActorShown, EntryDialog } from './entry-dialog.tsx'
import { Verification } from './verification.tsx'

/** Who changed what, when, and from where. */
export function AuditLog() {
  const mayVerify = useMay()(AdminService.method.verifyAudit)
  const [opened, setOpened] = useState<AuditEntry>()
  const pages = useEntries()
  const entries = pages.data?.pages.flatMap((page) => page.entries) ?? []
  const isOne = useViewScope().businessId !== ''
  const nameOf = useBusinessNames(
    isOne ? [] : entries.map(({ businessId }) => businessId).filter((id) => id !== ''),
  )
  return (
    <>
      {mayVerify && <Verification />}
      <FilterBar>
        <TextFilter name="action" label="Action" placeholder="key.revoke" />
        <TextFilter name="actor" label="Actor" placeholder="tok_…, key_…" />
        <TextFilter name="target" label="Target" placeholder="key_…, ep_…, biz_…" />
        <TimeFilter />
      </FilterBar>
      <ListFrame
        pages={pages}
        isEmpty={entries.length === 0}
        empty={
          <Empty title="No entries" command="inflow audit list">
            Every administrative change is kept here, for good.
          </Empty>
        }
      >
        <Table
          label="Audit entries"
          columns={isOne ? COLUMNS : [...COLUMNS, businessColumn(nameOf)]}
          rows={entries}
          keyOf={({ number }) => String(number)}
          onOpen={setOpened}
        />
      </ListFrame>
      <EntryDialog entry={opened} onClose={() => setOpened(undefined)} />
    </>
  )
}

function useEntries() {
  const { businessId } = useViewScope()
  const [action] = useUrlState('action')
  const [actorId] = useUrlState('actor')
  const [targetId] = useUrlState('target')
  const fromMs = readTime(useUrlState('from')[0])
  const toMs = readTime(useUrlState('to')[0])
  return useInfiniteQuery(
    AdminService.method.listAuditEntries,
    {
      businessId,
      action,
      actorId,
      targetId,
      pageSize: 50,
      pageToken: '',
      ...(fromMs !== undefined && { from: timestampFromMs(fromMs) }),
      ...(toMs !== undefined && { to: timestampFromMs(toMs) }),
    },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { key: 'number', title: '#', isNumber: true, render: ({ number }) => String(number) },
  { key: 'at', title: 'Time', render: ({ at }) => <Time at={at} /> },
  { key: 'action', title: 'Action', render: ({ action }) => <code>{action}</code> },
  { key: 'actor', title: 'Who', render: ({ actor }) => <ActorShown actor={actor} /> },
  {
    key: 'target',
    title: 'Target',
    render: ({ targetKind, targetId }) => (
      <>
        {targetKind.replaceAll('_', ' ')} {targetId !== '' && <Id text={targetId} />}
      </>
    ),
  },
  { key: 'address', title: 'From', render: ({ address }) => <code>{address}</code> },
]

function businessColumn(nameOf: (businessId: string) => string): Column<AuditEntry> {
  return {
    key: 'business',
    title: 'Business',
    render: ({ businessId }) => (businessId === '' ? null : nameOf(businessId)),
  }
}
