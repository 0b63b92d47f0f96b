import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { useInfiniteQuery } from '@connectrpc/connect-query'
import type { PortalLink } from '../../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { DAY, HOUR, MINUTE, msOf } from '../format/time.ts'
import { useMay } from '../session/session.tsx'
import { Action } from '../ui/action.tsx'
import { ChecksField, SelectField, TextField } from '../ui/form.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty, Section } from '../ui/page.tsx'
import { Id, Status, Time } from '../ui/values.tsx'

type LinkPages = ReturnType<typeof usePortalLinks>

export function usePortalLinks(businessId: string) {
  return useInfiniteQuery(
    SessionService.method.listPortalLinks,
    { businessId, pageSize: 20, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
      enabled: useMay()(SessionService.method.listPortalLinks),
    },
  )
}

/** The links that open the console for this business alone. */
export function PortalLinks({
  businessId,
  pages,
}: {
  readonly businessId: string
  readonly pages: LinkPages
}) {
  const links = pages.data?.pages.flatMap((page) => page.portalLinks) ?? []
  return (
    <Section title="Portal links" actions={<CreateLink businessId={businessId} />}>
      <ListFrame
        pages={pages}
        isEmpty={links.length === 0}
        empty={
          <Empty title="No links" command={`inflow portal link --business ${businessId} --ttl 24h`}>
            A link opens this console for the business: it sees its own data, and nothing else.
          </Empty>
        }
      >
        <Table label="Portal links" columns={COLUMNS} rows={links} keyOf={({ id }) => id} />
      </ListFrame>
    </Section>
  )
}

function isOpen({ revokedAt, expiresAt }: PortalLink): boolean {
  return revokedAt === undefined && (msOf(expiresAt) ?? 0) > Date.now()
}

const COLUMNS: readonly Column<PortalLink>[] = [
  {
    key: 'description',
    title: 'For',
    render: ({ description }) => description || <span className="faint">–</span>,
  },
  {
    key: 'state',
    title: 'State',
    render: (link) => {
      if (link.revokedAt) return <Status tone="neutral">Revoked</Status>
      if (!isOpen(link)) return <Status tone="neutral">Expired</Status>
      return <Status tone="good">Active</Status>
    },
  },
  { key: 'scopes', title: 'May', render: ({ scopes }) => scopes.join(', ') },
  { key: 'expires', title: 'Expires', render: ({ expiresAt }) => <Time at={expiresAt} /> },
  {
    key: 'used',
    title: 'Last opened',
    render: ({ lastUsedAt }) => (lastUsedAt ? <Time at={lastUsedAt} /> : 'Never'),
  },
  { key: 'created', title: 'Created', render: ({ createdAt }) => <Time at={createdAt} /> },
  { key: 'id', title: 'Id', render: ({ id }) => <Id text={id} /> },
  { key: 'do', title: '', render: (link) => isOpen(link) && <RevokeLink link={link} /> },
]

function RevokeLink({ link: { id } }: { readonly link: PortalLink }) {
  return (
    <Action
      method={SessionService.method.revokePortalLink}
      label="Revoke"
      kind="danger"
      target={id}
      says="The link and every session that was begun with it end within a second."
      request={() => ({ portalLinkId: id })}
      onClosed={() => {}}
    />
  )
}

const TTLS = [
  { value: String(HOUR), label: 'An hour' },
  { value: String(DAY), label: 'A day' },
  { value: String(7 * DAY), label: 'A week' },
  { value: String(30 * DAY), label: '30 days' },
]

const SCOPES = [
  { value: 'read', label: 'See its data' },
  { value: 'events:subscribe', label: 'See it as it happens' },
  { value: 'payments:write', label: 'Open and close accounts, decide on held payments' },
  { value: 'payments:reverse', label: 'Reverse payments' },
  { value: 'splits:write', label: 'Divide payments with approved recipients' },
]

function CreateLink({ businessId }: { readonly businessId: string }) {
  return (
    <Action
      method={SessionService.method.createPortalLink}
      label="Create link"
      icon="plus"
      target={({ portalLink }) => portalLink?.id ?? ''}
      says="Whoever has the link sees this business in the console, and does what it allows, until it expires or is revoked."
      request={(_reason, form) => ({
        businessId,
        description: form.text('description'),
        scopes: form.all('scopes'),
        ttl: durationFromMs(Math.max(MINUTE, form.whole('ttl'))),
      })}
      result={() => <p>Send this link to the business:</p>}
      secret={({ urlPath }) => window.location.origin + urlPath}
      secretNote="It is shown only now, and may be opened repeatedly."
    >
      <TextField name="description" label="For whom, or why" maxLength={200} />
      <SelectField name="ttl" label="Valid for" choices={TTLS} value={String(DAY)} />
      <ChecksField
        name="scopes"
        label="What it allows"
        choices={SCOPES}
        values={['read', 'events:subscribe']}
        required
      />
    </Action>
  )
}
