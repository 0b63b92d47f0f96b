import { useInfiniteQuery } from '@connectrpc/connect-query'
import type { Key } from '../../../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../../../gen/inflow/business/v1/business_service_pb.ts'
import { msOf } from '../../format/time.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Time } from '../../ui/values.tsx'
import { IssueKey, KeyActions } from './key-actions.tsx'

type KeyPages = ReturnType<typeof useKeys>

export function useKeys(businessId: string) {
  return useInfiniteQuery(
    BusinessService.method.listKeys,
    { businessId, pageSize: 50, pageToken: '' },
    { pageParamKey: 'pageToken', getNextPageParam: (last) => last.nextPageToken || undefined },
  )
}

/** The secret keys of a business in the mode that is shown: those that still work come first. */
export function Keys({
  businessId,
  pages,
}: {
  readonly businessId: string
  readonly pages: KeyPages
}) {
  const { live } = useViewScope()
  const all = pages.data?.pages.flatMap((page) => page.keys) ?? []
  const keys = all.filter((key) => key.live === live)
  const rows = keys.toSorted((a, b) => Number(isActive(b)) - Number(isActive(a)))
  return (
    <Section title="Secret keys" actions={<IssueKey businessId={businessId} />}>
      <ListFrame
        pages={pages}
        isEmpty={rows.length === 0}
        empty={
          <Empty
            title={`No keys for ${live ? 'live' : 'test'} mode`}
            command={`inflow key issue --business ${businessId}${live ? '' : ' --test'}`}
          >
            The business calls the API with a secret key.
          </Empty>
        }
      >
        <Table label="Secret keys" columns={COLUMNS} rows={rows} keyOf={({ id }) => id} />
      </ListFrame>
    </Section>
  )
}

/** Whether a key may still be used. */
export function isActive({ revokedAt, expiresAt }: Key): boolean {
  const expiresAtMs = msOf(expiresAt)
  return revokedAt === undefined && (expiresAtMs === undefined || expiresAtMs > Date.now())
}

const COLUMNS: readonly Column<Key>[] = [
  { key: 'prefix', title: 'Key', render: ({ prefix, id }) => <code title={id}>{prefix}…</code> },
  { key: 'state', title: 'State', render: (key) => <KeyState of={key} /> },
  {
    key: 'scopes',
    title: 'May',
    render: ({ scopes }) => (
      <span className="scopes">{scopes.join(', ') || 'what keys without scopes may'}</span>
    ),
  },
  {
    key: 'addresses',
    title: 'From',
    render: ({ allowedCidrs }) => (
      <span className="scopes">{allowedCidrs.join(', ') || 'anywhere'}</span>
    ),
  },
  {
    key: 'used',
    title: 'Last used',
    render: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} /> : 'Never'),
  },
  { key: 'created', title: 'Issued', render: ({ createdAt }) => <Time at={createdAt} /> },
  { key: 'do', title: '', render: (key) => isActive(key) && <KeyActions of={key} /> },
]

function KeyState({ of }: { readonly of: Key }) {
  const { revokedAt, expiresAt } = of
  if (revokedAt) return <Status tone="neutral">Revoked</Status>
  if (!isActive(of)) return <Status tone="neutral">Expired</Status>
  return (
    <>
      <Status tone="good">Active</Status>
      {expiresAt && (
        <span className="faint">
          {' until '}
          <Time at={expiresAt} />
        </span>
      )}
    </>
  )
}
